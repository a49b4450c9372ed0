package pickle

import "encoding/binary"

// longest is the size of the longest opcode the fast loop knows: LONG1 with a length and nine bytes.
const longest = 11

// fast runs the opcodes that make up nearly all of a snapshot straight from the buffer, as long as the longest of them
// is certainly there. Whatever is rare, odd or wrong it leaves where it stands: step takes over, and reports what
// is to be reported, but for what a Builder says of the fields of a dict.
func (m *machine) fast() error {
	buf, i := m.in.buf[:m.in.end], m.in.start
	stack, at := m.stack, m.in.offset()
loop:
	for i+longest <= len(buf) && len(stack) < maxStack && within(len(stack), at, 16) {
		var v Value
		n := 1
		switch buf[i] {
		case opBinGet, opLongBinGet:
			slot := int(buf[i+1])
			n = 2
			if buf[i] == opLongBinGet {
				slot = int(binary.LittleEndian.Uint32(buf[i+1:]))
				n = 5
			}
			got, ok := m.memo.get(slot)
			if !ok {
				break loop
			}
			v = got
		case opBinInt1:
			v, n = Value{Int, uint64(buf[i+1])}, 2
		case opBinInt2:
			v, n = Value{Int, uint64(binary.LittleEndian.Uint16(buf[i+1:]))}, 3
		case opBinInt:
			v, n = Value{Int, uint64(int64(int32(binary.LittleEndian.Uint32(buf[i+1:]))))}, 5
		case opLong1:
			length := int(buf[i+1])
			if length > longest-2 {
				break loop
			}
			v, n = long(buf[i+2:i+2+length]), 2+length
		case opShortBinUnicode:
			n = 2 + int(buf[i+1])
			if i+n > len(buf) {
				break loop
			}
			text, err := m.build.String(buf[i+2 : i+n])
			if err != nil {
				break loop
			}
			v = text
		case opSetItems:
			base, ok := m.filled(len(stack))
			if !ok {
				break loop
			}
			if err := m.build.SetItems(stack[base-1], stack[base:]); err != nil {
				return &Error{m.in.consumed + int64(i), err}
			}
			stack, m.marks = stack[:base], m.marks[:len(m.marks)-1]
			i++
			continue
		case opEmptyDict:
			v = m.build.Dict()
		case opEmptyList:
			v = m.build.List()
		case opMark:
			if len(m.marks) >= maxMarks {
				break loop
			}
			m.marks = append(m.marks, len(stack))
			i++
			continue
		case opMemoize:
			if len(stack) <= m.floor() || m.memo.len() >= maxMemo || !within(m.memo.len(), at, 8) {
				break loop
			}
			m.memo.put(m.memo.len(), stack[len(stack)-1])
			i++
			continue
		default:
			break loop
		}
		stack = append(stack, v)
		i += n
	}
	m.in.start, m.stack = i, stack
	return nil
}

// filled is where the values above the topmost mark begin, and whether they are keys and values with a container right below them.
func (m *machine) filled(height int) (base int, ok bool) {
	n := len(m.marks)
	if n == 0 {
		return 0, false
	}
	base = m.marks[n-1]
	floor := 0
	if n > 1 {
		floor = m.marks[n-2]
	}
	return base, base > floor && (height-base)%2 == 0
}
