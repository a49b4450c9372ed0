package pysource

// lexemes are the reserved words and operators. A token holds the place of its own in this list, so that the parser compares words
// without cutting them out of the source again. match, case and type are names that the parser looks at twice.
var lexemes = [...]string{
	"",
	"False", "None", "True", "and", "as", "assert", "async", "await", "break", "class", "continue", "def", "del", "elif", "else", "except", "finally", "for", "from",
	"global", "if", "import", "in", "is", "lambda", "nonlocal", "not", "or", "pass", "raise", "return", "try", "while", "with", "yield",
	"(", ")", "[", "]", "{", "}", ",", ":", ";", ".", "=", "+", "-", "*", "/", "%", "@", "&", "|", "^", "~", "<", ">",
	"==", "!=", "<=", ">=", "+=", "-=", "*=", "/=", "%=", "@=", "&=", "|=", "^=", ":=", "->", "**", "//", "<<", ">>", "**=", "//=", "<<=", ">>=", "...",
}

// byFirst lists the lexemes that begin with a byte.
var byFirst = func() (out [256][]uint8) {
	for i, w := range lexemes[1:] {
		out[w[0]] = append(out[w[0]], uint8(i+1))
	}
	return out
}()

// lexeme is the place of a text among the lexemes; 0 for any other.
func lexeme(text []byte) uint8 {
	for _, i := range byFirst[text[0]] {
		if lexemes[i] == string(text) {
			return i
		}
	}
	return 0
}

// inName tells which bytes an identifier is made of. Every byte beyond ASCII counts as a letter; the few that are not only make a stranger name.
var inName = func() (out [256]bool) {
	for c := range out {
		out[c] = c == '_' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || digit(byte(c)) || c >= 0x80
	}
	return out
}()

func identByte(c byte) bool { return inName[c] }

// slab hands out small things that live and die with their tree, many at a time.
type slab[T any] struct{ free []T }

const slabSize = 64

func (s *slab[T]) next() *T {
	if len(s.free) == 0 {
		s.free = make([]T, slabSize)
	}
	out := &s.free[0]
	s.free = s.free[1:]
	return out
}

// store is what the nodes of one tree are made from. Most names are kept once, for many files.
type store struct {
	words      *lexicon
	names      slab[Name]
	attributes slab[Attribute]
	calls      slab[Call]
	constants  slab[Constant]
	strings    slab[String]
}

// lexicon remembers names, each in a place that follows from its letters; the last name that came to a place has it. It fits into a processor's cache,
// which a map of all names does not.
type lexicon [1 << 12]string

func (s *store) word(text []byte) string {
	hash := uint32(2166136261) // FNV-1a
	for _, c := range text {
		hash = (hash ^ uint32(c)) * 16777619
	}
	known := &s.words[(hash^hash>>15)%uint32(len(s.words))]
	if *known != string(text) {
		*known = string(text)
	}
	return *known
}

func (s *store) name(at Span, id string) *Name {
	n := s.names.next()
	n.Span, n.ID = at, id
	return n
}

// attribute is x.attr, whose text ends at end.
func (s *store) attribute(src []byte, x Expr, attr string, end int32) *Attribute {
	a := s.attributes.next()
	a.X, a.Attr = x, attr
	base := ""
	switch x := x.(type) {
	case *Name:
		base = x.ID
	case *Attribute:
		base = x.Path
	}
	if base == "" {
		return a
	}
	if start := x.Pos().Start; int(end-start) == len(base)+1+len(attr) {
		a.Path = s.word(src[start:end])
	} else { // with brackets or blanks in between
		a.Path = s.word([]byte(base + "." + attr))
	}
	return a
}
