package pickle

import (
	"bytes"
	"strings"
)

// Opcodes that carry data.
const (
	opMark            = '('
	opStop            = '.'
	opBinFloat        = 'G'
	opBinInt          = 'J'
	opBinInt1         = 'K'
	opBinInt2         = 'M'
	opNone            = 'N'
	opBinString       = 'T'
	opShortBinString  = 'U'
	opBinUnicode      = 'X'
	opBinBytes        = 'B'
	opShortBinBytes   = 'C'
	opAppend          = 'a'
	opDict            = 'd'
	opAppends         = 'e'
	opBinGet          = 'h'
	opLongBinGet      = 'j'
	opList            = 'l'
	opEmptyList       = ']'
	opBinPut          = 'q'
	opLongBinPut      = 'r'
	opSetItem         = 's'
	opTuple           = 't'
	opEmptyTuple      = ')'
	opSetItems        = 'u'
	opEmptyDict       = '}'
	opProto           = 0x80
	opTuple1          = 0x85
	opTuple2          = 0x86
	opTuple3          = 0x87
	opNewTrue         = 0x88
	opNewFalse        = 0x89
	opLong1           = 0x8a
	opLong4           = 0x8b
	opShortBinUnicode = 0x8c
	opBinUnicode8     = 0x8d
	opBinBytes8       = 0x8e
	opMemoize         = 0x94
	opFrame           = 0x95
	opByteArray8      = 0x96
)

// unsafe names the opcodes that import, call or construct.
var unsafe = map[byte]string{
	'c': "GLOBAL", 0x93: "STACK_GLOBAL", 'R': "REDUCE", 'b': "BUILD", 'i': "INST", 'o': "OBJ",
	0x81: "NEWOBJ", 0x92: "NEWOBJ_EX", 'P': "PERSID", 'Q': "BINPERSID",
	0x82: "EXT1", 0x83: "EXT2", 0x84: "EXT4", 0x97: "NEXT_BUFFER", 0x98: "READONLY_BUFFER",
}

// refuse reports an opcode that is not data.
func (m *machine) refuse(op byte) error {
	name, ok := unsafe[op]
	if !ok {
		return m.fail("opcode %#02x has no place in a memory snapshot", op)
	}
	e := &UnsafeError{Offset: m.at, Opcode: name}
	if op == 'c' || op == 'i' {
		e.Name = m.globalName()
	}
	return e
}

// globalName reads the module and name after GLOBAL, for the message only.
func (m *machine) globalName() string {
	rest := m.in.peek(200)
	lines := bytes.SplitN(rest, []byte("\n"), 3)
	if len(lines) < 3 {
		return ""
	}
	return strings.ToValidUTF8(string(lines[0])+"."+string(lines[1]), "?")
}
