// Package pickle runs the data-only part of Python's pickle machine.
//
// It takes a stream of pickle protocol 2 to 5, written by CPython or by torch's C++ pickler, and a Builder
// and returns calls on the Builder, in order, as containers are filled: nothing is kept here but the machine's stack
// and its memo of 32-bit references, so a file of any length costs what its Builder keeps of it. Every opcode that
// could import, call or construct anything (GLOBAL, REDUCE, BUILD, …) is refused with its offset, as are unbounded lengths, stacks
// and memo indices. A genuine memory snapshot uses none of them.
//
// The opcodes are those of CPython's Lib/pickletools.py and torch/csrc/jit/serialization/pickler.cpp.
package pickle

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
)

// Kind tags a Value. Kinds from FirstReference on belong to the Builder.
type Kind uint8

// Kinds the machine itself knows.
const (
	None   Kind = iota
	Bool        // N is 0 or 1
	Int         // N is the two's complement value
	Float       // N holds math.Float64bits
	Mark        // never seen by a Builder
	Opaque      // something read over: bytes, integers beyond 64 bits
	FirstReference
)

const lastKind = 15

// Value is one item on the machine's stack: a scalar, or a Builder's reference to what it keeps.
type Value struct {
	Kind Kind
	N    uint64
}

// Builder keeps what a pickle contains. Values that it returns must have kinds from FirstReference to 15 and N below
// 2^28: the memo stores them in 32 bits.
type Builder interface {
	String(text []byte) (Value, error)
	Dict() Value
	List() Value
	Tuple(items []Value) (Value, error)
	// SetItems adds key, value, key, value, … to a dict.
	SetItems(dict Value, pairs []Value) error
	// Append adds items to a list.
	Append(list Value, items []Value) error
}

// Limits of a pickle that is still taken for a snapshot.
const (
	maxString = 16 << 20 // bytes of one string
	maxStack  = 16 << 20 // values on the stack: torch's C++ pickler pushes a whole list before one APPENDS
	maxMemo   = 64 << 20 // memo slots; CPython takes about three for an event
	maxMarks  = 4 << 10
)

// within tells whether a count of values is one that a file can have had reason for up to an offset: a few thousand anyway, and beyond that
// one for so many bytes. A record of a snapshot takes 30 bytes and more; a file that repeats an opcode without end takes one or two.
func within(n int, offset int64, bytesEach int64) bool { return int64(n) < 4096+offset/bytesEach }

// Error is a pickle that cannot be read.
type Error struct {
	Offset int64 // of the opcode
	Err    error // why
}

func (e *Error) Error() string { return fmt.Sprintf("pickle, byte %d: %v", e.Offset, e.Err) }

// Unwrap gives the reason.
func (e *Error) Unwrap() error { return e.Err }

// ErrTruncated is wrapped where the input ends inside the pickle.
var ErrTruncated = errors.New("the file ends here")

// ErrUnsafe is wrapped by the refusal of an opcode that could run code.
var ErrUnsafe = errors.New("it could run code")

// UnsafeError refuses an opcode that could run code.
type UnsafeError struct {
	Offset int64
	Opcode string
	Name   string // what it would have imported, where the opcode says
}

func (e *UnsafeError) Error() string {
	what := e.Opcode
	if e.Name != "" {
		what += fmt.Sprintf(" %q", e.Name) // quoted: the name comes from the file and may hold escape sequences
	}
	return fmt.Sprintf("pickle, byte %d: refused opcode %s: %v, and no memory snapshot contains it", e.Offset, what, ErrUnsafe)
}

// Unwrap makes errors.Is(err, ErrUnsafe) true.
func (e *UnsafeError) Unwrap() error { return ErrUnsafe }

// Read runs one pickle to its STOP and returns the value it leaves.
func Read(r io.Reader, b Builder) (Value, error) {
	m := &machine{in: newWindow(r), build: b}
	if err := m.header(); err != nil {
		return Value{}, err
	}
	for {
		if err := m.fast(); err != nil {
			return Value{}, err
		}
		m.at = m.in.offset()
		op, err := m.in.byte()
		if err != nil {
			return Value{}, m.truncated(err)
		}
		if op == opStop {
			return m.pop()
		}
		if err := m.step(op); err != nil {
			return Value{}, err
		}
	}
}

type machine struct {
	in    *window
	build Builder
	stack []Value
	marks []int // stack heights at which MARKs stand
	memo  memo
	at    int64 // offset of the current opcode
}

func (m *machine) fail(format string, args ...any) error {
	return &Error{m.at, fmt.Errorf(format, args...)}
}

func (m *machine) truncated(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return m.fail("%w, before the pickle does (was it cut off while being written or copied?)", ErrTruncated)
	}
	return fmt.Errorf("pickle, byte %d: %w", m.at, err)
}

func (m *machine) header() error {
	op, err := m.in.byte()
	if err != nil {
		return m.truncated(err)
	}
	proto, err := m.in.byte()
	if err != nil {
		return m.truncated(err)
	}
	if op != opProto || proto < 2 || proto > 5 {
		return m.fail("not a pickle of protocol 2 to 5 (it begins with bytes %#02x %#02x)", op, proto)
	}
	return nil
}

func (m *machine) push(v Value) error {
	if n := len(m.stack); n >= maxStack || !within(n, m.at, 16) {
		return m.fail("more than %d values are pending; no memory snapshot needs that", n)
	}
	m.stack = append(m.stack, v)
	return nil
}

func (m *machine) pop() (Value, error) {
	if len(m.stack) <= m.floor() {
		return Value{}, m.fail("the opcode needs a value and the stack has none")
	}
	v := m.stack[len(m.stack)-1]
	m.stack = m.stack[:len(m.stack)-1]
	return v, nil
}

// floor is the height below which the current opcode may not reach: the topmost mark.
func (m *machine) floor() int {
	if len(m.marks) == 0 {
		return 0
	}
	return m.marks[len(m.marks)-1]
}

// above takes the values above the topmost mark and removes both.
func (m *machine) above() ([]Value, error) {
	if len(m.marks) == 0 {
		return nil, m.fail("the opcode needs a mark and there is none")
	}
	base := m.floor()
	items := m.stack[base:]
	m.stack = m.stack[:base]
	m.marks = m.marks[:len(m.marks)-1]
	return items, nil
}

func (m *machine) top() (Value, error) {
	if len(m.stack) <= m.floor() {
		return Value{}, m.fail("the opcode needs a container and the stack has none")
	}
	return m.stack[len(m.stack)-1], nil
}

func (m *machine) step(op byte) error {
	switch op {
	case opMark:
		if len(m.marks) >= maxMarks {
			return m.fail("marks nest too deeply")
		}
		m.marks = append(m.marks, len(m.stack))
		return nil
	case opEmptyDict:
		return m.push(m.build.Dict())
	case opEmptyList:
		return m.push(m.build.List())
	case opSetItems, opAppends:
		return m.fill(op)
	case opSetItem, opAppend:
		return m.fillOne(op)
	case opMemoize, opBinPut, opLongBinPut:
		return m.put(op)
	case opBinGet, opLongBinGet:
		return m.get(op)
	case opShortBinUnicode, opBinUnicode, opBinUnicode8:
		return m.text(op)
	case opBinInt1, opBinInt2, opBinInt, opLong1, opLong4:
		return m.integer(op)
	case opNone:
		return m.push(Value{Kind: None})
	case opNewTrue:
		return m.push(Value{Bool, 1})
	case opNewFalse:
		return m.push(Value{Bool, 0})
	case opBinFloat:
		return m.float()
	}
	return m.rare(op)
}

// rare handles the opcodes a snapshot has few of.
func (m *machine) rare(op byte) error {
	switch op {
	case opFrame, opProto:
		n := 8
		if op == opProto {
			n = 1
		}
		_, err := m.bytes(n)
		return err
	case opEmptyTuple, opTuple, opTuple1, opTuple2, opTuple3:
		return m.tuple(op)
	case opList, opDict:
		return m.collect(op)
	case opShortBinBytes, opBinBytes, opBinBytes8, opByteArray8, opShortBinString, opBinString:
		return m.skipBytes(op)
	}
	return m.refuse(op)
}

func (m *machine) fill(op byte) error {
	items, err := m.above()
	if err != nil {
		return err
	}
	target, err := m.top()
	if err != nil {
		return err
	}
	if op == opAppends {
		return m.located(m.build.Append(target, items))
	}
	if len(items)%2 != 0 {
		return m.fail("a dict is given %d keys and values together, an odd number", len(items))
	}
	return m.located(m.build.SetItems(target, items))
}

func (m *machine) fillOne(op byte) error {
	n := 1
	if op == opSetItem {
		n = 2
	}
	if len(m.stack)-m.floor() < n+1 {
		return m.fail("the opcode needs %d values and the stack has fewer", n+1)
	}
	base := len(m.stack) - n
	items, target := m.stack[base:], m.stack[base-1]
	m.stack = m.stack[:base]
	if op == opAppend {
		return m.located(m.build.Append(target, items))
	}
	return m.located(m.build.SetItems(target, items))
}

// collect builds a container from everything above the mark (opcodes LIST and DICT).
func (m *machine) collect(op byte) error {
	items, err := m.above()
	if err != nil {
		return err
	}
	if op == opList {
		list := m.build.List()
		if err := m.located(m.build.Append(list, items)); err != nil {
			return err
		}
		return m.push(list)
	}
	if len(items)%2 != 0 {
		return m.fail("a dict is given %d keys and values together, an odd number", len(items))
	}
	dict := m.build.Dict()
	if err := m.located(m.build.SetItems(dict, items)); err != nil {
		return err
	}
	return m.push(dict)
}

func (m *machine) tuple(op byte) error {
	var items []Value
	switch op {
	case opTuple:
		above, err := m.above()
		if err != nil {
			return err
		}
		items = above
	case opTuple1, opTuple2, opTuple3:
		n := int(op-opTuple1) + 1
		if len(m.stack)-m.floor() < n {
			return m.fail("the opcode needs %d values and the stack has fewer", n)
		}
		items = m.stack[len(m.stack)-n:]
		m.stack = m.stack[:len(m.stack)-n]
	}
	v, err := m.build.Tuple(items)
	if err != nil {
		return m.located(err)
	}
	return m.push(v)
}

// located gives a Builder's error the offset of the opcode that caused it.
func (m *machine) located(err error) error {
	if err == nil {
		return nil
	}
	return &Error{m.at, err}
}

func (m *machine) put(op byte) error {
	v, err := m.top()
	if err != nil {
		return err
	}
	slot := uint64(m.memo.len())
	switch op {
	case opBinPut:
		b, err := m.bytes(1)
		if err != nil {
			return err
		}
		slot = uint64(b[0])
	case opLongBinPut:
		b, err := m.bytes(4)
		if err != nil {
			return err
		}
		slot = uint64(binary.LittleEndian.Uint32(b))
	}
	if slot >= maxMemo || !within(int(slot), m.at, 8) {
		return m.fail("memo index %d is out of reach at this point of the file", slot)
	}
	m.memo.put(int(slot), v)
	return nil
}

func (m *machine) get(op byte) error {
	n := 1
	if op == opLongBinGet {
		n = 4
	}
	b, err := m.bytes(n)
	if err != nil {
		return err
	}
	slot := int(b[0])
	if n == 4 {
		slot = int(binary.LittleEndian.Uint32(b))
	}
	v, ok := m.memo.get(slot)
	if !ok {
		return m.fail("memo slot %d was never filled", slot)
	}
	return m.push(v)
}

func (m *machine) text(op byte) error {
	n, err := m.length(op == opShortBinUnicode, op == opBinUnicode8)
	if err != nil {
		return err
	}
	if n > maxString {
		return m.fail("a string of %d bytes; a memory snapshot has none beyond %d", n, maxString)
	}
	b, err := m.in.take(int(n))
	if err != nil {
		return m.truncated(err)
	}
	v, err := m.build.String(b)
	if err != nil {
		return m.located(err)
	}
	return m.push(v)
}

// length reads the length before a string or bytes: one byte, four or eight.
func (m *machine) length(short, long bool) (uint64, error) {
	switch {
	case short:
		b, err := m.bytes(1)
		if err != nil {
			return 0, err
		}
		return uint64(b[0]), nil
	case long:
		b, err := m.bytes(8)
		if err != nil {
			return 0, err
		}
		return binary.LittleEndian.Uint64(b), nil
	}
	b, err := m.bytes(4)
	if err != nil {
		return 0, err
	}
	return uint64(binary.LittleEndian.Uint32(b)), nil
}

func (m *machine) integer(op byte) error {
	switch op {
	case opBinInt1:
		b, err := m.bytes(1)
		if err != nil {
			return err
		}
		return m.push(Value{Int, uint64(b[0])})
	case opBinInt2:
		b, err := m.bytes(2)
		if err != nil {
			return err
		}
		return m.push(Value{Int, uint64(binary.LittleEndian.Uint16(b))})
	case opBinInt:
		b, err := m.bytes(4)
		if err != nil {
			return err
		}
		return m.push(Value{Int, uint64(int64(int32(binary.LittleEndian.Uint32(b))))})
	}
	n, err := m.length(op == opLong1, false)
	if err != nil {
		return err
	}
	if n > 4096 {
		return m.fail("an integer of %d bytes", n)
	}
	b, err := m.bytes(int(n))
	if err != nil {
		return err
	}
	return m.push(long(b))
}

// long decodes a two's complement little-endian integer. Nine bytes carry addresses of 2^63 and above.
func long(b []byte) Value {
	if len(b) == 9 && b[8] == 0 {
		b = b[:8]
		return Value{Int, binary.LittleEndian.Uint64(b)}
	}
	if len(b) > 8 {
		return Value{Kind: Opaque}
	}
	var n uint64
	for i, c := range b {
		n |= uint64(c) << (8 * i)
	}
	if k := len(b); k > 0 && k < 8 && b[k-1]&0x80 != 0 {
		n |= math.MaxUint64 << (8 * k)
	}
	return Value{Int, n}
}

func (m *machine) float() error {
	b, err := m.bytes(8)
	if err != nil {
		return err
	}
	return m.push(Value{Float, binary.BigEndian.Uint64(b)})
}

func (m *machine) bytes(n int) ([]byte, error) {
	b, err := m.in.take(n)
	if err != nil {
		return nil, m.truncated(err)
	}
	return b, nil
}

func (m *machine) skipBytes(op byte) error {
	n, err := m.length(op == opShortBinBytes || op == opShortBinString, op == opBinBytes8 || op == opByteArray8)
	if err != nil {
		return err
	}
	if err := m.in.skip(n); err != nil {
		return m.truncated(err)
	}
	return m.push(Value{Kind: Opaque})
}
