package pysource

import "bytes"

func (p *parser) atom() Expr {
	start := p.span().Start
	switch p.kind() {
	case tokName:
		n := p.nodes.name(p.span(), p.name())
		p.i++
		return n
	case tokNumber:
		n := &Number{p.span(), p.nodes.word(p.src[p.span().Start:p.span().End])}
		p.i++
		return n
	case tokString:
		return p.str()
	case tokBad:
		p.fail("this character has no meaning in Python")
	}
	switch w := p.word(); w {
	case "None", "True", "False", "...":
		p.i++
		c := p.nodes.constants.next()
		c.Span, c.Text = p.from(start), w
		return c
	case "(":
		p.i++
		return p.bracketed('(', ")")
	case "[":
		p.i++
		return p.bracketed('[', "]")
	case "{":
		p.i++
		return p.braces(start)
	case "yield":
		return p.yield()
	case "lambda": // after a unary operator or in a broken place: still worth reading
		return p.lambda()
	}
	p.fail("expected an expression")
	return nil
}

// str joins adjacent literals and reads the expressions of f-strings.
func (p *parser) str() Expr {
	s := p.nodes.strings.next()
	s.Span = p.span()
	var joined []byte // of several literals
	for first := true; p.kind() == tokString; first = false {
		span := p.span()
		lit := p.src[span.Start:span.End]
		quote := bytes.IndexAny(lit, `"'`)
		d := len(delimiter(lit, quote))
		if text := lit[quote+d : max(quote+d, len(lit)-d)]; first {
			s.Value = string(text)
		} else {
			if joined == nil {
				joined = []byte(s.Value)
			}
			joined = append(joined, text...)
		}
		if formatted(lit[:quote]) {
			s.Formatted = true
			for _, f := range p.text.fields(int(span.Start)+quote, int(span.End)) {
				if x := p.fragment(f); x != nil {
					s.Parts = append(s.Parts, x)
				}
			}
		}
		s.End = span.End
		p.i++
	}
	if joined != nil {
		s.Value = string(joined)
	}
	return s
}

// fragment reads the expression of an f-string field; one that cannot be read is left out.
func (p *parser) fragment(at Span) (x Expr) {
	if p.fields >= maxStringDepth {
		return nil
	}
	sc := scanner{src: p.src[:at.End], file: &File{}, inner: true, cr: true, depth: 1, pos: int(at.Start), text: p.text, indents: []int{0}}
	for sc.pos < len(sc.src) {
		switch c := sc.src[sc.pos]; c {
		case '\n', '\r', '\\':
			sc.pos++
		default:
			sc.token()
		}
	}
	sc.add(tokEOF, sc.pos, sc.pos)
	q := parser{file: &File{}, src: p.src, toks: sc.toks, text: p.text, nodes: p.nodes, fields: p.fields + 1, depth: p.depth}
	defer func() {
		if r := recover(); r != nil {
			if _, ok := r.(failure); !ok {
				panic(r)
			}
			x = nil
		}
	}()
	x = q.exprList()
	if q.kind() != tokEOF {
		return nil
	}
	return x
}

// bracketed reads a tuple, a list, a generator, a list comprehension or an expression in brackets.
func (p *parser) bracketed(kind byte, end string) Expr {
	start := p.toks[p.i-1].Start
	p.enter()
	defer p.leave()
	noIn := p.noIn
	p.noIn = false
	defer func() { p.noIn = noIn }()
	seq := &Sequence{Kind: kind}
	if p.take(end) {
		seq.Span = p.from(start)
		return seq
	}
	first := p.yieldOrStar()
	if p.is("for") || p.is("async") {
		c := &Comprehension{Kind: kind, Value: first, Clauses: p.clauses()}
		p.expect(end)
		c.Span = p.from(start)
		return c
	}
	comma := p.is(",")
	seq.Items = p.rest([]Expr{first}, end)
	if kind == '(' && !comma {
		return first
	}
	seq.Span = p.from(start)
	return seq
}

func (p *parser) yieldOrStar() Expr {
	if p.is("yield") {
		return p.yield()
	}
	return p.starOrExpr()
}

// rest reads further items up to and with the closing bracket.
func (p *parser) rest(list []Expr, end string) []Expr {
	for p.take(",") {
		if p.is(end) {
			break
		}
		list = append(list, p.starOrExpr())
	}
	p.expect(end)
	return list
}

// braces reads a set, a dict or a comprehension of either.
func (p *parser) braces(start int32) Expr {
	p.enter()
	defer p.leave()
	noIn := p.noIn
	p.noIn = false
	defer func() { p.noIn = noIn }()
	d := &Dict{}
	if p.take("}") {
		d.Span = p.from(start)
		return d
	}
	first := p.starOrExpr()
	if star, ok := first.(*Starred); ok && star.Double || p.is(":") {
		return p.dict(start, first)
	}
	if p.is("for") || p.is("async") {
		c := &Comprehension{Kind: '{', Value: first, Clauses: p.clauses()}
		p.expect("}")
		c.Span = p.from(start)
		return c
	}
	s := &Sequence{Kind: '{'}
	s.Items = p.rest([]Expr{first}, "}")
	s.Span = p.from(start)
	return s
}

func (p *parser) dict(start int32, first Expr) Expr {
	d := &Dict{}
	for key := first; ; {
		if star, ok := key.(*Starred); ok && star.Double {
			d.Keys, d.Values = append(d.Keys, nil), append(d.Values, star.X)
		} else {
			p.expect(":")
			value := p.namedExpr()
			if len(d.Keys) == 0 && (p.is("for") || p.is("async")) {
				c := &Comprehension{Kind: ':', Key: key, Value: value, Clauses: p.clauses()}
				p.expect("}")
				c.Span = p.from(start)
				return c
			}
			d.Keys, d.Values = append(d.Keys, key), append(d.Values, value)
		}
		if !p.take(",") || p.is("}") {
			p.expect("}")
			d.Span = p.from(start)
			return d
		}
		key = p.starOrExpr()
	}
}
