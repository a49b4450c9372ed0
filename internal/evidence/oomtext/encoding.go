package oomtext

import (
	"bufio"
	"encoding/binary"
	"io"
	"unicode/utf16"
	"unicode/utf8"
)

// decode returns a reader of UTF-8 whatever the byte order mark of in says.
func decode(in io.Reader) io.Reader {
	buffered := bufio.NewReaderSize(in, bufferSize)
	mark, err := buffered.Peek(2)
	if err != nil {
		return buffered // too short, or the error comes again when it is read
	}
	switch string(mark) {
	case "\xff\xfe":
		return &utf16Reader{in: buffered, order: binary.LittleEndian}
	case "\xfe\xff":
		return &utf16Reader{in: buffered, order: binary.BigEndian}
	}
	return buffered
}

// utf16Reader turns UTF-16 into UTF-8. Surrogate halves and a last odd byte become U+FFFD: messages have neither.
type utf16Reader struct {
	in    *bufio.Reader
	order binary.ByteOrder
}

func (r *utf16Reader) Read(p []byte) (int, error) {
	n := 0
	for n+utf8.UTFMax <= len(p) {
		var two [2]byte
		if _, err := io.ReadFull(r.in, two[:]); err != nil {
			if n > 0 {
				return n, nil
			}
			if err == io.ErrUnexpectedEOF {
				err = io.EOF
			}
			return 0, err
		}
		c := rune(r.order.Uint16(two[:]))
		if c == '\ufeff' {
			continue
		}
		if utf16.IsSurrogate(c) {
			c = utf8.RuneError
		}
		n += utf8.EncodeRune(p[n:], c)
		if c == '\n' && r.in.Buffered() == 0 {
			break // a pipe may rest here
		}
	}
	return n, nil
}
