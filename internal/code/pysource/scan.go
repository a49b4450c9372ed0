package pysource

import (
	"bytes"
	"strings"
)

type tokKind uint8

const (
	tokEOF tokKind = iota
	tokNewline
	tokIndent
	tokDedent
	tokName
	tokKeyword
	tokNumber
	tokString
	tokOp
	tokBad
)

type token struct {
	Span
	kind tokKind
	word uint8 // of a keyword or an operator: its place in lexemes
}

// openers are the words that only begin a statement: inside an unclosed bracket, at the start of a line, they tell that the
// bracket was forgotten.
var openers = map[string]bool{
	"def": true, "class": true, "import": true, "return": true, "while": true, "with": true, "try": true, "raise": true,
	"pass": true, "break": true, "continue": true, "del": true, "global": true, "nonlocal": true, "assert": true, "except": true, "finally": true,
}

// scanner cuts the source into tokens, indentation included. With inner set it reads a fragment of an expression,
// where line ends mean nothing.
type scanner struct {
	src     []byte
	file    *File
	toks    []token
	pos     int
	depth   int   // open brackets
	opened  []int // where they were opened
	indents []int
	inner   bool
	cr      bool // some lines end with a carriage return
	text    *literals
}

func (s *scanner) scan() {
	s.file.lines = append(s.file.lines, 0)
	if n := len(s.src)/5 + 16; cap(s.toks) < n {
		s.toks = make([]token, 0, n)
	}
	s.cr = bytes.IndexByte(s.src, '\r') >= 0
	s.indents = []int{0}
	if strings.HasPrefix(string(s.src[:min(3, len(s.src))]), "\ufeff") {
		s.pos = 3
	}
	for s.pos < len(s.src) {
		s.line()
	}
	if s.depth > 0 && !s.inner {
		s.unclosed()
	}
	s.newline(s.pos)
	for range len(s.indents) - 1 {
		s.add(tokDedent, s.pos, s.pos)
	}
	s.add(tokEOF, s.pos, s.pos)
}

// line reads one physical line from its first byte: indentation, tokens, line end.
func (s *scanner) line() {
	if s.depth > 0 && s.forgottenBracket() {
		s.unclosed()
		s.depth = 0
		s.newline(s.pos)
	}
	if s.depth == 0 && s.startsStatement() {
		s.indentation()
	}
	for s.pos < len(s.src) {
		c := s.src[s.pos]
		switch {
		case c == '\n' || c == '\r':
			end := s.pos
			s.lineEnd()
			if s.depth == 0 {
				s.newline(end)
			}
			return
		case c == '\\' && s.pos+1 < len(s.src) && (s.src[s.pos+1] == '\n' || s.src[s.pos+1] == '\r'):
			s.pos++
			s.lineEnd()
		default:
			s.token()
		}
	}
}

// unclosed complains of the bracket that was opened last.
func (s *scanner) unclosed() {
	at := s.pos // a fragment begins inside a bracket
	if len(s.opened) > 0 {
		at = s.opened[len(s.opened)-1]
	}
	s.fail(at, min(at+1, len(s.src)), "this bracket is not closed")
	s.opened = s.opened[:0]
}

// startsStatement tells whether the last token ended a statement, so that this line's indentation counts.
func (s *scanner) startsStatement() bool {
	if len(s.toks) == 0 {
		return true
	}
	k := s.toks[len(s.toks)-1].kind
	return k == tokNewline || k == tokIndent || k == tokDedent
}

// forgottenBracket looks at the first word of a line inside brackets.
func (s *scanner) forgottenBracket() bool {
	i := s.pos
	for i < len(s.src) && (s.src[i] == ' ' || s.src[i] == '\t') {
		i++
	}
	j := i
	for j < len(s.src) && identByte(s.src[j]) {
		j++
	}
	return j > i && openers[string(s.src[i:j])]
}

// lineEnd steps over \n, \r or \r\n and notes the next line's start.
func (s *scanner) lineEnd() {
	if s.src[s.pos] == '\r' && s.pos+1 < len(s.src) && s.src[s.pos+1] == '\n' {
		s.pos++
	}
	s.pos++
	if !s.inner {
		s.file.lines = append(s.file.lines, int32(s.pos))
	}
}

func (s *scanner) newline(at int) {
	if !s.startsStatement() {
		s.add(tokNewline, at, at)
	}
}

func (s *scanner) indentation() {
	width, i := 0, s.pos
	for ; i < len(s.src); i++ {
		switch s.src[i] {
		case ' ':
			width++
		case '\t':
			width += 8 - width%8
		case '\f':
			width = 0
		default:
			goto measured
		}
	}
measured:
	s.pos = i
	if i == len(s.src) || s.src[i] == '\n' || s.src[i] == '\r' || s.src[i] == '#' {
		return // blank lines do not indent
	}
	if top := s.indents[len(s.indents)-1]; width > top {
		s.indents = append(s.indents, width)
		s.add(tokIndent, i, i)
		return
	}
	for width < s.indents[len(s.indents)-1] {
		s.indents = s.indents[:len(s.indents)-1]
		s.add(tokDedent, i, i)
	}
	if width != s.indents[len(s.indents)-1] {
		s.fail(i, i, "the indentation matches no outer block")
	}
}

func (s *scanner) token() {
	start, c := s.pos, s.src[s.pos]
	switch {
	case c == ' ' || c == '\t' || c == '\f':
		s.pos++
	case c == '#':
		s.pos = s.lineBreak(s.pos, len(s.src))
		if !s.inner {
			s.file.Comments = append(s.file.Comments, Comment{Span{int32(start), int32(s.pos)}, string(s.src[start:s.pos])})
		}
	case c == '"' || c == '\'':
		s.str(start, start)
	case digit(c) || c == '.' && s.pos+1 < len(s.src) && digit(s.src[s.pos+1]):
		s.pos = numberEnd(s.src, s.pos)
		s.add(tokNumber, start, s.pos)
	case identByte(c):
		s.word()
	default:
		s.operator()
	}
}

func (s *scanner) word() {
	start := s.pos
	for s.pos < len(s.src) && identByte(s.src[s.pos]) {
		s.pos++
	}
	word := s.src[start:s.pos]
	if s.pos < len(s.src) && (s.src[s.pos] == '"' || s.src[s.pos] == '\'') && stringPrefix(word) {
		s.str(start, s.pos)
		return
	}
	if place := lexeme(word); place > 0 {
		s.toks = append(s.toks, token{Span{int32(start), int32(s.pos)}, tokKeyword, place})
		return
	}
	s.add(tokName, start, s.pos)
}

// lineBreak is the offset of the next line end, or until where there is none before it.
func (s *scanner) lineBreak(from, until int) int {
	text := s.src[from:until]
	if i := bytes.IndexByte(text, '\n'); i >= 0 {
		text = text[:i]
	}
	if s.cr {
		if i := bytes.IndexByte(text, '\r'); i >= 0 {
			text = text[:i]
		}
	}
	return from + len(text)
}

// str reads a string literal whose prefix starts at start and whose quote stands at quote.
func (s *scanner) str(start, quote int) {
	end, ok := s.text.end(start, quote, 0)
	if !ok {
		s.fail(start, end, "this string is not closed")
	}
	if !s.inner {
		for i := s.lineBreak(start, end); i < end; i = s.lineBreak(i+1, end) {
			if s.src[i] == '\n' || !(i+1 < len(s.src) && s.src[i+1] == '\n') {
				s.file.lines = append(s.file.lines, int32(i+1))
			}
		}
	}
	s.pos = end
	s.add(tokString, start, end)
}

func (s *scanner) operator() {
	start := s.pos
	s.pos += operatorLength(s.src[s.pos:])
	switch c := s.src[start]; c {
	case '(', '[', '{':
		s.depth++
		s.opened = append(s.opened, start)
	case ')', ']', '}':
		s.depth = max(0, s.depth-1)
		s.opened = s.opened[:min(len(s.opened), s.depth)]
	case '$', '?', '`', '!', '\\', 0:
		if s.pos-start == 1 {
			s.add(tokBad, start, s.pos)
			return
		}
	default:
		if c < ' ' || c == 0x7f {
			s.add(tokBad, start, s.pos)
			return
		}
	}
	s.toks = append(s.toks, token{Span{int32(start), int32(s.pos)}, tokOp, lexeme(s.src[start:s.pos])})
}

// operatorLength measures the longest operator at the start of text.
func operatorLength(text []byte) int {
	at := func(i int) byte {
		if i < len(text) {
			return text[i]
		}
		return 0
	}
	a, b, c := at(0), at(1), at(2)
	switch {
	case a == '.' && b == '.' && c == '.':
		return 3
	case (a == '*' || a == '/' || a == '<' || a == '>') && b == a:
		if c == '=' {
			return 3
		}
		return 2
	case b == '=' && strings.IndexByte("+-*/%@&|^<>=!:", a) >= 0:
		return 2
	case a == '-' && b == '>':
		return 2
	}
	return 1
}

func (s *scanner) add(kind tokKind, start, end int) {
	s.toks = append(s.toks, token{Span{int32(start), int32(end)}, kind, 0})
}

func (s *scanner) fail(start, end int, message string) {
	s.file.fail(Span{int32(start), int32(end)}, message)
}

// maxErrors bounds what one file reports.
const maxErrors = 100

func (f *File) fail(at Span, message string) {
	if len(f.Errors) < maxErrors {
		f.Errors = append(f.Errors, Error{at, message})
	}
}

func digit(c byte) bool { return c >= '0' && c <= '9' }

func stringPrefix(word []byte) bool {
	switch strings.ToLower(string(word)) {
	case "r", "u", "b", "f", "t", "br", "rb", "fr", "rf", "tr", "rt":
		return true
	}
	return false
}

// numberEnd finds the end of a numeric literal: "1if x" ends before the if.
func numberEnd(src []byte, i int) int {
	run := func(ok func(byte) bool) {
		for i < len(src) && (ok(src[i]) || src[i] == '_' && i+1 < len(src) && ok(src[i+1])) {
			i++
		}
	}
	if src[i] == '0' && i+1 < len(src) && strings.IndexByte("xXoObB", src[i+1]) >= 0 {
		i += 2
		run(func(c byte) bool { return digit(c) || c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F' })
		return i
	}
	run(digit)
	if i < len(src) && src[i] == '.' {
		i++
		run(digit)
	}
	if i+1 < len(src) && (src[i] == 'e' || src[i] == 'E') {
		if sign := src[i+1] == '+' || src[i+1] == '-'; digit(src[i+1]) || sign && i+2 < len(src) && digit(src[i+2]) {
			i += 2
			run(digit)
		}
	}
	if i < len(src) && (src[i] == 'j' || src[i] == 'J') {
		i++
	}
	return i
}
