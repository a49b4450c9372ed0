package pysource

import "bytes"

// literals finds where string literals end. Looking for the end of an f-string can mean looking twice, and again for each
// string within it; budget bounds the bytes looked at for a whole file, after which f-strings are read like plain ones.
type literals struct {
	src    []byte
	budget int
}

func newLiterals(src []byte) *literals { return &literals{src, 16*len(src) + 1<<16} }

// spend takes n bytes from the budget and tells whether that many were left.
func (l *literals) spend(n int) bool {
	l.budget -= n
	return l.budget >= 0
}

// maxStringDepth bounds strings within the expressions of f-strings within …
const maxStringDepth = 12

// end finds the end of the literal whose prefix starts at start and whose quote stands at quote. In an f-string
// the same quote may stand inside braces (PEP 701); where that reading finds no end, the first closing quote counts.
func (l *literals) end(start, quote, depth int) (end int, ok bool) {
	if formatted(l.src[start:quote]) && l.budget > 0 && depth < maxStringDepth {
		if end, ok = l.formattedEnd(quote, depth); ok {
			return end, true
		}
	}
	end, ok = plainEnd(l.src, quote)
	l.spend(end - quote)
	return end, ok
}

func formatted(prefix []byte) bool { return bytes.ContainsAny(prefix, "fFtT") }

// delimiter is the run of quotes at i: one or three.
func delimiter(src []byte, i int) []byte {
	if i+2 < len(src) && src[i+1] == src[i] && src[i+2] == src[i] {
		return src[i : i+3]
	}
	return src[i : i+1]
}

func plainEnd(src []byte, quote int) (int, bool) {
	d := delimiter(src, quote)
	for i := quote + len(d); i < len(src); i++ {
		switch c := src[i]; {
		case c == '\\':
			i++
			if i+1 < len(src) && src[i] == '\r' && src[i+1] == '\n' {
				i++
			}
		case c == d[0]:
			if len(d) == 1 || bytes.HasPrefix(src[i:], d) {
				return i + len(d), true
			}
		case len(d) == 1 && (c == '\n' || c == '\r'):
			return i, false
		}
	}
	return len(src), false
}

func (l *literals) formattedEnd(quote, depth int) (int, bool) {
	src := l.src
	d := delimiter(src, quote)
	for i := quote + len(d); i < len(src) && l.spend(1); {
		switch c := src[i]; {
		case c == '\\':
			i += 2
		case c == d[0] && bytes.HasPrefix(src[i:], d):
			return i + len(d), true
		case c == '{' && i+1 < len(src) && src[i+1] == '{':
			i += 2
		case c == '{':
			_, end, ok := l.field(i, d, depth)
			if !ok {
				return i, false
			}
			i = end
		case len(d) == 1 && (c == '\n' || c == '\r'):
			return i, false
		default:
			i++
		}
	}
	return len(src), false
}

// field reads one replacement field from its opening brace: the expressions in it (its own and those of a nested
// format spec) and the offset after the closing brace.
func (l *literals) field(open int, d []byte, depth int) (exprs []Span, end int, ok bool) {
	src := l.src
	if depth >= maxStringDepth {
		return nil, open, false
	}
	exprEnd, ok := l.fieldExpr(open+1, depth)
	if !ok {
		return nil, exprEnd, false
	}
	exprs = []Span{{int32(open + 1), int32(exprEnd)}}
	i := exprEnd
	if i < len(src) && src[i] == '=' {
		for i++; i < len(src) && (src[i] == ' ' || src[i] == '\t'); i++ {
		}
	}
	if i < len(src) && src[i] == '!' {
		for i++; i < len(src) && (identByte(src[i]) || src[i] == ' '); i++ {
		}
	}
	if i < len(src) && src[i] == '}' {
		return exprs, i + 1, true
	}
	if i >= len(src) || src[i] != ':' {
		return exprs, i, false
	}
	for i++; i < len(src) && l.spend(1); {
		switch {
		case src[i] == '}':
			return exprs, i + 1, true
		case src[i] == '{':
			inner, next, ok := l.field(i, d, depth+1)
			if !ok {
				return exprs, next, false
			}
			exprs, i = append(exprs, inner...), next
		case len(d) == 1 && (src[i] == '\n' || src[i] == '\r'), bytes.HasPrefix(src[i:], d):
			return exprs, i, false
		default:
			i++
		}
	}
	return exprs, i, false
}

// fieldExpr finds the end of the expression that starts at i: the brace, colon, "!" or "=" that is not part of it.
func (l *literals) fieldExpr(i, depth int) (int, bool) {
	src, brackets := l.src, 0
	for i < len(src) && l.spend(1) {
		c := src[i]
		next := byte(0)
		if i+1 < len(src) {
			next = src[i+1]
		}
		switch {
		case c == '"' || c == '\'':
			start := i
			for start > 0 && identByte(src[start-1]) {
				start--
			}
			if !stringPrefix(src[start:i]) {
				start = i
			}
			end, ok := l.end(start, i, depth+1)
			if !ok {
				return i, false
			}
			i = end
			continue
		case c == '(' || c == '[' || c == '{':
			brackets++
		case brackets > 0 && (c == ')' || c == ']' || c == '}'):
			brackets--
		case c == ')' || c == ']':
			return i, false
		case brackets == 0 && (c == '}' || c == ':' || c == '!' && next != '='):
			return i, true
		case brackets == 0 && (c == '!' || c == '<' || c == '>' || c == '=') && next == '=':
			i += 2
			continue
		case brackets == 0 && c == '=':
			return i, true
		}
		i++
	}
	return i, false
}

// fields lists the expressions of an f-string literal.
func (l *literals) fields(quote, end int) []Span {
	src := l.src
	d := delimiter(src, quote)
	var all []Span
	for i := quote + len(d); i < end-len(d); {
		switch {
		case src[i] == '{' && src[i+1] == '{':
			i += 2
		case src[i] == '{':
			exprs, next, ok := l.field(i, d, 0)
			if !ok || next > end {
				return all
			}
			all, i = append(all, exprs...), next
		default:
			i++
		}
	}
	return all
}
