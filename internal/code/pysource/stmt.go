package pysource

import "strings"

// compound reads a statement with a block, or gives nil where none starts here.
func (p *parser) compound() Stmt {
	start := p.span().Start
	switch p.word() {
	case "if":
		return p.ifStmt(start)
	case "while":
		p.i++
		s := &While{Test: p.namedExpr()}
		s.Body = p.suite()
		s.Else = p.elseSuite()
		s.Span = p.from(start)
		return s
	case "for":
		return p.forStmt(start, false)
	case "with":
		return p.withStmt(start, false)
	case "try":
		return p.tryStmt(start)
	case "def":
		return p.function(start, nil, false)
	case "class":
		return p.class(start, nil)
	case "@":
		return p.decorated(start)
	case "async":
		switch p.wordAt(p.i + 1) {
		case "for":
			p.i++
			return p.forStmt(start, true)
		case "with":
			p.i++
			return p.withStmt(start, true)
		case "def":
			p.i++
			return p.function(start, nil, true)
		}
		p.fail("async must stand before def, for or with")
	}
	if p.name() == "match" && p.matchFollows() {
		return p.matchStmt(start)
	}
	return nil
}

func (p *parser) ifStmt(start int32) Stmt {
	s := &If{}
	for first := true; first && p.take("if") || !first && p.take("elif"); first = false {
		test := p.namedExpr()
		s.Branches = append(s.Branches, Branch{test, p.suite()})
	}
	s.Else = p.elseSuite()
	s.Span = p.from(start)
	return s
}

func (p *parser) elseSuite() []Stmt {
	if !p.take("else") {
		return nil
	}
	return p.suite()
}

func (p *parser) forStmt(start int32, async bool) Stmt {
	p.expect("for")
	s := &For{Async: async, Target: p.target()}
	p.expect("in")
	s.Iter = p.exprList()
	s.Body = p.suite()
	s.Else = p.elseSuite()
	s.Span = p.from(start)
	return s
}

// target reads what stands between for and in.
func (p *parser) target() Expr {
	outer := p.noIn
	p.noIn = true
	t := p.exprList()
	p.noIn = outer
	return t
}

func (p *parser) withStmt(start int32, async bool) Stmt {
	p.expect("with")
	s := &With{Async: async}
	parenthesised := p.is("(") && p.parenthesisedWith()
	if parenthesised {
		p.i++
	}
	for {
		item := WithItem{Context: p.expr()}
		if p.take("as") {
			item.Target = p.starOrExpr()
		}
		s.Items = append(s.Items, item)
		if !p.take(",") || parenthesised && p.is(")") {
			break
		}
	}
	if parenthesised {
		p.expect(")")
	}
	s.Body = p.suite()
	s.Span = p.from(start)
	return s
}

// parenthesisedWith tells whether the bracket here holds with-items: it closes right before the colon and has a comma or
// an "as" of its own level.
func (p *parser) parenthesisedWith() bool {
	depth, list := 0, false
	for i := p.i; i < len(p.toks); i++ {
		if k := p.toks[i].kind; k == tokNewline || k == tokEOF {
			return false
		}
		switch p.wordAt(i) {
		case "(", "[", "{":
			depth++
		case ")", "]", "}":
			depth--
			if depth == 0 {
				return list && p.wordAt(i+1) == ":"
			}
		case ",", "as":
			list = list || depth == 1
		case "for":
			if depth == 1 {
				return false
			}
		}
	}
	return false
}

func (p *parser) tryStmt(start int32) Stmt {
	p.expect("try")
	s := &Try{Body: p.suite()}
	for p.is("except") {
		s.Handlers = append(s.Handlers, p.handler())
	}
	s.Else = p.elseSuite()
	if p.take("finally") {
		s.Finally = p.suite()
	}
	s.Span = p.from(start)
	return s
}

func (p *parser) handler() Handler {
	start := p.span().Start
	p.expect("except")
	p.take("*")
	h := Handler{}
	if !p.is(":") {
		h.Type = p.exprList()
		if p.take("as") {
			h.Name = p.ident()
		}
	}
	h.Body = p.suite()
	h.Span = p.from(start)
	return h
}

func (p *parser) decorated(start int32) Stmt {
	var decorators []Expr
	for p.take("@") {
		decorators = append(decorators, p.namedExpr())
		if p.kind() == tokNewline {
			p.i++
		}
	}
	switch {
	case p.is("class"):
		return p.class(start, decorators)
	case p.take("async"):
		return p.function(start, decorators, true)
	}
	return p.function(start, decorators, false)
}

func (p *parser) function(start int32, decorators []Expr, async bool) Stmt {
	p.expect("def")
	s := &Function{Decorators: decorators, Async: async, NameSpan: p.span()}
	s.Name = p.ident()
	p.typeParams()
	p.expect("(")
	s.Params = p.params(")", true)
	p.expect(")")
	if p.take("->") {
		s.Returns = p.exprList()
	}
	s.Body = p.suite()
	s.Span = p.from(start)
	return s
}

// typeParams steps over [T: int, *Ts] of a generic definition (PEP 695).
func (p *parser) typeParams() {
	if !p.is("[") {
		return
	}
	depth := 0
	for p.kind() != tokNewline && p.kind() != tokEOF {
		switch p.word() {
		case "[", "(", "{":
			depth++
		case "]", ")", "}":
			depth--
		}
		p.i++
		if depth == 0 {
			return
		}
	}
	p.fail("expected ]")
}

// params reads parameters up to end; annotations only where a def allows them.
func (p *parser) params(end string, annotated bool) []Param {
	var params []Param
	for !p.is(end) {
		start := p.span().Start
		if p.take("/") {
			p.take(",")
			continue
		}
		prm := Param{}
		switch {
		case p.take("**"):
			prm.Star = 2
		case p.take("*"):
			prm.Star = 1
		}
		if prm.Star != 1 || !p.is(",") {
			prm.Name = p.ident()
			if annotated && p.take(":") {
				prm.Annotation = p.starOrExpr()
			}
			if p.take("=") {
				prm.Default = p.expr()
			}
			prm.Span = p.from(start)
			params = append(params, prm)
		}
		if !p.take(",") {
			break
		}
	}
	return params
}

func (p *parser) class(start int32, decorators []Expr) Stmt {
	p.expect("class")
	s := &Class{Decorators: decorators, NameSpan: p.span()}
	s.Name = p.ident()
	p.typeParams()
	if p.take("(") {
		s.Args = p.args()
	}
	s.Body = p.suite()
	s.Span = p.from(start)
	return s
}

// matchFollows looks ahead: a match statement ends its line with a colon, and a case follows.
func (p *parser) matchFollows() bool {
	depth := 0
	for i := p.i + 1; i < len(p.toks); i++ {
		switch p.wordAt(i) {
		case "(", "[", "{":
			depth++
		case ")", "]", "}":
			depth--
		case "=":
			if depth == 0 {
				return false
			}
		}
		if k := p.toks[i].kind; k == tokEOF {
			return false
		} else if k == tokNewline {
			return i > p.i+2 && i+2 < len(p.toks) && p.wordAt(i-1) == ":" && p.toks[i+1].kind == tokIndent &&
				string(p.src[p.toks[i+2].Start:p.toks[i+2].End]) == "case"
		}
	}
	return false
}

func (p *parser) matchStmt(start int32) Stmt {
	p.i++
	s := &Match{Subject: p.exprList()}
	p.expect(":")
	p.i += 2 // newline, indent: matchFollows saw them
	p.enter()
	defer p.leave()
	for p.name() == "case" {
		p.i++
		p.pattern = true
		c := Case{Pattern: p.exprList()}
		p.pattern = false
		if p.take("if") {
			c.Guard = p.namedExpr()
		}
		c.Body = p.suite()
		s.Cases = append(s.Cases, c)
	}
	if p.kind() != tokDedent && p.kind() != tokEOF {
		p.fail("expected case")
	}
	if p.kind() == tokDedent {
		p.i++
	}
	s.Span = p.from(start)
	return s
}

// simple reads a statement without a block.
func (p *parser) simple() Stmt {
	start := p.span().Start
	switch w := p.word(); w {
	case "pass", "break", "continue":
		p.i++
		return &Word{Span: p.from(start), Keyword: w}
	case "global", "nonlocal":
		p.i++
		names := []string{p.ident()}
		for p.take(",") {
			names = append(names, p.ident())
		}
		return &Word{p.from(start), w, names}
	case "return":
		p.i++
		s := &Return{X: p.optional()}
		s.Span = p.from(start)
		return s
	case "raise":
		p.i++
		s := &Raise{X: p.optional()}
		if p.take("from") {
			s.Cause = p.expr()
		}
		s.Span = p.from(start)
		return s
	case "assert":
		p.i++
		s := &Assert{Test: p.expr()}
		if p.take(",") {
			s.Message = p.expr()
		}
		s.Span = p.from(start)
		return s
	case "del":
		p.i++
		s := &Delete{Targets: items(p.exprList())}
		s.Span = p.from(start)
		return s
	case "import":
		return p.imported(p.importStmt(start))
	case "from":
		return p.imported(p.fromImport(start))
	}
	if p.name() == "type" && p.toks[p.i+1].kind == tokName && (p.wordAt(p.i+2) == "=" || p.wordAt(p.i+2) == "[") {
		p.i++
		s := &TypeAlias{Name: p.ident()}
		p.typeParams()
		p.expect("=")
		s.Value = p.expr()
		s.Span = p.from(start)
		return s
	}
	return p.assignment(start)
}

// items gives the members of a bare tuple, or the expression alone.
func items(x Expr) []Expr {
	if seq, ok := x.(*Sequence); ok && seq.Kind == '(' {
		return seq.Items
	}
	return []Expr{x}
}

// optional reads the operand of return or raise, nil where there is none.
func (p *parser) optional() Expr {
	if k := p.kind(); k == tokNewline || k == tokEOF || p.is(";") || p.is("from") {
		return nil
	}
	return p.exprList()
}

func (p *parser) dotted() string {
	var b strings.Builder
	b.WriteString(p.ident())
	for p.take(".") {
		b.WriteByte('.')
		b.WriteString(p.ident())
	}
	return b.String()
}

// imported notes an import in the file's list.
func (p *parser) imported(s *Import) Stmt {
	p.file.Imports = append(p.file.Imports, s)
	return s
}

func (p *parser) importStmt(start int32) *Import {
	p.i++
	s := &Import{}
	for {
		a := Alias{Name: p.dotted()}
		if p.take("as") {
			a.As = p.ident()
		}
		s.Aliases = append(s.Aliases, a)
		if !p.take(",") {
			break
		}
	}
	s.Span = p.from(start)
	return s
}

func (p *parser) fromImport(start int32) *Import {
	p.i++
	s := &Import{From: true}
	for p.is(".") || p.is("...") {
		s.Module += p.word()
		p.i++
	}
	if !p.is("import") {
		s.Module += p.dotted()
	}
	p.expect("import")
	if p.take("*") {
		s.Aliases = []Alias{{Name: "*"}}
		s.Span = p.from(start)
		return s
	}
	bracket := p.take("(")
	for {
		a := Alias{Name: p.ident()}
		if p.take("as") {
			a.As = p.ident()
		}
		s.Aliases = append(s.Aliases, a)
		if !p.take(",") || bracket && p.is(")") {
			break
		}
	}
	if bracket {
		p.expect(")")
	}
	s.Span = p.from(start)
	return s
}

func (p *parser) assignment(start int32) Stmt {
	x := p.exprList()
	if p.take(":") {
		s := &Assign{Targets: []Expr{x}, Annotation: p.expr()}
		if p.take("=") {
			s.Value = p.exprList()
		}
		s.Span = p.from(start)
		return s
	}
	if w := p.word(); len(w) >= 2 && w[len(w)-1] == '=' && strings.IndexByte("+-*/%@&|^<>", w[0]) >= 0 && w != "<=" && w != ">=" {
		p.i++
		s := &Assign{Targets: []Expr{x}, Op: w, Value: p.exprList()}
		s.Span = p.from(start)
		return s
	}
	if !p.is("=") {
		return &ExprStmt{p.from(start), x}
	}
	s := &Assign{}
	for p.take("=") {
		s.Targets = append(s.Targets, x)
		x = p.exprList()
	}
	s.Value = x
	s.Span = p.from(start)
	return s
}
