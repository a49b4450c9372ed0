package pysource

// maxDepth bounds the nesting of expressions and blocks; CPython itself gives up at 200 brackets and 100 blocks.
const maxDepth = 200

// maxChain bounds a.b.c… and a + b + c…, which nest to the left.
const maxChain = 3000

type parser struct {
	file    *File
	src     []byte
	toks    []token
	i       int
	nodes   *store
	depth   int
	text    *literals
	pattern bool // inside a case pattern, where "x as name" is allowed
	noIn    bool // in the target of a for, where "in" ends the expression
	fields  int  // nesting of f-string fields
}

// failure ends the statement being read; statement() catches it and goes on with the next line.
type failure struct{}

func (p *parser) kind() tokKind { return p.toks[p.i].kind }

func (p *parser) span() Span { return p.toks[p.i].Span }

// word is the text of the current token where it is a keyword or an operator, else empty.
func (p *parser) word() string { return p.wordAt(p.i) }

func (p *parser) wordAt(i int) string {
	if i >= len(p.toks) {
		return ""
	}
	return lexemes[p.toks[i].word]
}

func (p *parser) name() string {
	t := p.toks[p.i]
	if t.kind != tokName {
		return ""
	}
	return p.nodes.word(p.src[t.Start:t.End])
}

func (p *parser) is(word string) bool { return lexemes[p.toks[p.i].word] == word }

// take steps over the word if it is there.
func (p *parser) take(word string) bool {
	if !p.is(word) {
		return false
	}
	p.i++
	return true
}

func (p *parser) expect(word string) {
	if !p.take(word) {
		p.fail("expected " + word)
	}
}

func (p *parser) fail(message string) {
	p.file.fail(p.span(), message)
	panic(failure{})
}

// enter counts one level of nesting; the caller defers leave.
func (p *parser) enter() {
	p.depth++
	if p.depth > maxDepth {
		p.fail("nested too deeply")
	}
}

func (p *parser) leave() { p.depth-- }

// from makes the span from start to the end of the last token read. What ends a line or a block is no part of a statement.
func (p *parser) from(start int32) Span {
	last := p.i - 1
	for last > 0 && (p.toks[last].kind == tokNewline || p.toks[last].kind == tokDedent) {
		last--
	}
	if last < 0 {
		return Span{start, start}
	}
	return Span{start, max(start, p.toks[last].End)}
}

// block reads statements until done says so or the block ends.
func (p *parser) block(done func() bool) []Stmt {
	var body []Stmt
	for p.kind() != tokEOF && !done() {
		switch p.kind() {
		case tokNewline, tokDedent:
			p.i++
		case tokIndent:
			p.file.fail(p.span(), "unexpected indentation")
			p.i++
		default:
			body = p.statement(body)
		}
	}
	return body
}

// statement reads one statement, or several joined by semicolons, and appends them.
func (p *parser) statement(body []Stmt) (out []Stmt) {
	start, first, depth := p.span().Start, p.i, p.depth
	defer func() {
		r := recover()
		if r == nil {
			return
		}
		if _, ok := r.(failure); !ok {
			panic(r)
		}
		p.depth, p.pattern, p.noIn = depth, false, false
		out = append(body, p.skip(start, first))
	}()
	if s := p.compound(); s != nil {
		return append(body, s)
	}
	for {
		body = append(body, p.simple())
		if p.take(";") && p.kind() != tokNewline {
			continue
		}
		if p.kind() != tokNewline && p.kind() != tokEOF {
			p.fail("expected the end of the statement")
		}
		if p.kind() == tokNewline {
			p.i++
		}
		return body
	}
}

// skip leaves a broken line behind; the block below it, if there is one, is read as usual.
func (p *parser) skip(start int32, first int) Stmt {
	for p.kind() != tokNewline && p.kind() != tokEOF && p.kind() != tokIndent && p.kind() != tokDedent {
		p.i++
	}
	if p.i == first {
		p.i++
	}
	bad := &BadStmt{Span: p.from(start)}
	if p.kind() == tokNewline {
		p.i++
	}
	if p.kind() == tokIndent && p.depth < maxDepth {
		p.i++
		p.depth++
		bad.Body = p.block(func() bool { return p.kind() == tokDedent })
		p.depth--
		if p.kind() == tokDedent {
			p.i++
		}
	}
	return bad
}

// suite reads ":" and the block that belongs to it, on the same line or indented below.
func (p *parser) suite() []Stmt {
	p.expect(":")
	p.enter()
	defer p.leave()
	if p.kind() != tokNewline {
		var body []Stmt
		for p.kind() != tokEOF {
			body = append(body, p.simple())
			if !p.take(";") || p.kind() == tokNewline {
				break
			}
		}
		if p.kind() == tokNewline {
			p.i++
		} else if p.kind() != tokEOF {
			p.fail("expected the end of the statement")
		}
		return body
	}
	p.i++
	if p.kind() != tokIndent {
		p.file.fail(p.span(), "expected an indented block")
		return nil
	}
	p.i++
	body := p.block(func() bool { return p.kind() == tokDedent })
	if p.kind() == tokDedent {
		p.i++
	}
	return body
}
