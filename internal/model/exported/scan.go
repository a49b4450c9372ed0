package exported

import (
	"bytes"
	"fmt"
	"strconv"
	"unicode/utf8"
)

// maxDepth bounds the nesting of the JSON; real graphs stay below twenty.
const maxDepth = 200

// scanner walks a JSON text without building it: graphs are mostly source lines that nobody keeps.
// The first mistake is remembered in err and ends every loop.
type scanner struct {
	data  []byte
	pos   int
	depth int
	err   error
	keys  map[string]string // member names seen, so that each is made once
}

func (s *scanner) fail(format string, args ...any) {
	if s.err == nil {
		s.err = fmt.Errorf("at byte %d: %w", s.pos, fmt.Errorf(format, args...))
	}
	s.pos = len(s.data)
}

// peek is the next byte that is no white space, 0 at the end.
func (s *scanner) peek() byte {
	for s.pos < len(s.data) {
		switch c := s.data[s.pos]; c {
		case ' ', '\t', '\n', '\r':
			s.pos++
		default:
			return c
		}
	}
	return 0
}

func (s *scanner) expect(c byte) bool {
	if s.peek() != c {
		s.fail("%q expected", string(c))
		return false
	}
	s.pos++
	return true
}

func (s *scanner) enter(c byte) bool {
	if s.depth++; s.depth > maxDepth {
		s.fail("nested deeper than %d", maxDepth)
		return false
	}
	return s.expect(c)
}

// object calls member for every key; member must consume the value.
func (s *scanner) object(member func(key string)) {
	defer func() { s.depth-- }()
	if !s.enter('{') {
		return
	}
	if s.peek() == '}' {
		s.pos++
		return
	}
	for s.err == nil {
		key := s.key()
		if !s.expect(':') {
			return
		}
		member(key)
		if s.peek() == ',' {
			s.pos++
			continue
		}
		s.expect('}')
		return
	}
}

// key is the name of a member. Files use few different ones; hostile files may not fill memory with them.
func (s *scanner) key() string {
	raw := s.raw()
	if key, ok := s.keys[string(raw)]; ok {
		return key
	}
	key := string(raw)
	if bytes.IndexByte(raw, '\\') >= 0 {
		key = unescape(raw)
	} else if len(s.keys) < 1024 {
		s.keys[key] = key
	}
	return key
}

// array calls item for every element; item must consume it.
func (s *scanner) array(item func()) {
	defer func() { s.depth-- }()
	if !s.enter('[') {
		return
	}
	if s.peek() == ']' {
		s.pos++
		return
	}
	for s.err == nil {
		item()
		if s.peek() == ',' {
			s.pos++
			continue
		}
		s.expect(']')
		return
	}
}

// raw is a string's bytes between its quotes, escapes untouched.
func (s *scanner) raw() []byte {
	if !s.expect('"') {
		return nil
	}
	start := s.pos
	for {
		i := bytes.IndexByte(s.data[s.pos:], '"')
		if i < 0 {
			s.fail("unterminated string")
			return nil
		}
		s.pos += i + 1
		slashes := 0
		for j := s.pos - 2; j >= start && s.data[j] == '\\'; j-- {
			slashes++
		}
		if slashes%2 == 0 {
			return s.data[start : s.pos-1]
		}
	}
}

// text is a string with its escapes undone.
func (s *scanner) text() string {
	raw := s.raw()
	if bytes.IndexByte(raw, '\\') < 0 {
		return string(raw)
	}
	return unescape(raw)
}

func unescape(raw []byte) string {
	out := make([]byte, 0, len(raw))
	for i := 0; i < len(raw); i++ {
		if raw[i] != '\\' || i+1 >= len(raw) {
			out = append(out, raw[i])
			continue
		}
		i++
		switch raw[i] {
		case 'n':
			out = append(out, '\n')
		case 't':
			out = append(out, '\t')
		case 'r', 'b', 'f':
			out = append(out, ' ')
		case 'u':
			if i+4 < len(raw) {
				code, err := strconv.ParseUint(string(raw[i+1:i+5]), 16, 32)
				if err == nil {
					out = utf8.AppendRune(out, rune(code))
				}
				i += 4
			}
		default:
			out = append(out, raw[i])
		}
	}
	return string(out)
}

// scalar is the text of a number, true, false or null.
func (s *scanner) scalar() string {
	s.peek()
	start := s.pos
	for s.pos < len(s.data) {
		c := s.data[s.pos]
		if c == ',' || c == '}' || c == ']' || c == ' ' || c == '\n' || c == '\t' || c == '\r' {
			break
		}
		s.pos++
	}
	if start == s.pos {
		s.fail("value expected")
	}
	return string(s.data[start:s.pos])
}

func (s *scanner) int() int64 {
	text := s.scalar()
	v, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		s.fail("%.20q is not a whole number", text)
	}
	return v
}

// float reads a number; schema versions from 8 on write infinities as strings.
func (s *scanner) float() float64 {
	text := ""
	if s.peek() == '"' {
		text = s.text()
	} else {
		text = s.scalar()
	}
	v, err := strconv.ParseFloat(text, 64)
	if err != nil {
		s.fail("%.20q is not a number", text)
	}
	return v
}

func (s *scanner) bool() bool {
	switch text := s.scalar(); text {
	case "true":
		return true
	case "false":
		return false
	default:
		s.fail("%.20q is not true or false", text)
		return false
	}
}

// null consumes a null and tells whether there was one.
func (s *scanner) null() bool {
	if s.peek() != 'n' {
		return false
	}
	if text := s.scalar(); text != "null" {
		s.fail("%.20q is not a JSON value", text)
	}
	return true
}

// skip consumes any value.
func (s *scanner) skip() {
	switch s.peek() {
	case '"':
		s.raw()
	case '{':
		s.object(func(string) { s.skip() })
	case '[':
		s.array(s.skip)
	default:
		s.scalar()
	}
}
