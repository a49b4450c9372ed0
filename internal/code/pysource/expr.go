package pysource

// exprList reads one expression or, where commas follow, a bare tuple; stars and a yield are allowed.
func (p *parser) exprList() Expr {
	start := p.span().Start
	if p.is("yield") {
		return p.yield()
	}
	first := p.starOrExpr()
	if !p.is(",") {
		return first
	}
	t := &Sequence{Kind: '(', Items: []Expr{first}}
	for p.take(",") {
		if !p.startsExpr() {
			break
		}
		t.Items = append(t.Items, p.starOrExpr())
	}
	t.Span = p.from(start)
	return t
}

// startsExpr tells whether an expression may begin here.
func (p *parser) startsExpr() bool {
	switch p.kind() {
	case tokName, tokNumber, tokString:
		return true
	case tokKeyword:
		switch p.word() {
		case "None", "True", "False", "not", "lambda", "await", "yield":
			return true
		}
	case tokOp:
		switch p.word() {
		case "(", "[", "{", "-", "+", "~", "...", "*", "**":
			return true
		}
	}
	return false
}

func (p *parser) yield() Expr {
	start := p.span().Start
	p.i++
	y := &Yield{From: p.take("from")}
	if p.startsExpr() {
		y.X = p.exprList()
	}
	y.Span = p.from(start)
	return y
}

func (p *parser) starOrExpr() Expr {
	start := p.span().Start
	if p.is("*") || p.is("**") {
		double := p.is("**")
		p.i++
		x := p.binary(0)
		return &Starred{p.from(start), x, double}
	}
	return p.namedExpr()
}

// namedExpr reads an expression, a walrus allowed; inside a case pattern also "pattern as name".
func (p *parser) namedExpr() Expr {
	start := p.span().Start
	x := p.expr()
	if p.pattern && p.take("as") {
		return &Walrus{Target: p.nodes.name(p.span(), p.ident()), Value: x, Span: p.from(start)}
	}
	n, ok := x.(*Name)
	if !ok || !p.take(":=") {
		return x
	}
	w := &Walrus{Target: n, Value: p.expr()}
	w.Span = p.from(start)
	return w
}

// expr reads a conditional expression, a lambda, or anything that binds tighter.
func (p *parser) expr() Expr {
	p.enter()
	defer p.leave()
	start := p.span().Start
	if p.is("lambda") {
		return p.lambda()
	}
	x := p.or()
	if p.pattern || !p.is("if") {
		return x
	}
	p.i++
	c := &Conditional{Then: x, Test: p.or()}
	p.expect("else")
	c.Else = p.expr()
	c.Span = p.from(start)
	return c
}

func (p *parser) lambda() Expr {
	start := p.span().Start
	p.expect("lambda")
	l := &Lambda{Params: p.params(":", false)}
	p.expect(":")
	l.Body = p.expr()
	l.Span = p.from(start)
	return l
}

func (p *parser) or() Expr  { return p.boolean("or", p.and) }
func (p *parser) and() Expr { return p.boolean("and", p.not) }

func (p *parser) boolean(op string, operand func() Expr) Expr {
	start := p.span().Start
	x := operand()
	if !p.is(op) {
		return x
	}
	b := &Bool{Op: op, Values: []Expr{x}}
	for p.take(op) {
		b.Values = append(b.Values, operand())
	}
	b.Span = p.from(start)
	return b
}

func (p *parser) not() Expr {
	start := p.span().Start
	if !p.take("not") {
		return p.compare()
	}
	p.enter()
	defer p.leave()
	x := p.not()
	return &Unary{p.from(start), "not", x}
}

func (p *parser) compare() Expr {
	start := p.span().Start
	x := p.binary(0)
	op := p.comparison()
	if op == "" {
		return x
	}
	c := &Compare{Values: []Expr{x}}
	for ; op != ""; op = p.comparison() {
		c.Ops = append(c.Ops, op)
		c.Values = append(c.Values, p.binary(0))
	}
	c.Span = p.from(start)
	return c
}

// comparison takes a comparison operator, of one word or two.
func (p *parser) comparison() string {
	switch w := p.word(); w {
	case "<", ">", "==", ">=", "<=", "!=":
		p.i++
		return w
	case "in":
		if p.noIn {
			return ""
		}
		p.i++
		return w
	case "is":
		p.i++
		if p.take("not") {
			return "is not"
		}
		return w
	case "not":
		if p.wordAt(p.i+1) == "in" {
			p.i += 2
			return "not in"
		}
	}
	return ""
}

// levelOf ranks the left-associative operators, loosest first; -1 for anything else.
func levelOf(op string) int {
	switch op {
	case "|":
		return 0
	case "^":
		return 1
	case "&":
		return 2
	case "<<", ">>":
		return 3
	case "+", "-":
		return 4
	case "*", "/", "//", "%", "@":
		return 5
	}
	return -1
}

// binary reads operators of the level and tighter by precedence climbing.
func (p *parser) binary(level int) Expr {
	start := p.span().Start
	x := p.unary()
	for n := 0; ; n++ {
		op := p.word()
		l := levelOf(op)
		if l < level {
			return x
		}
		if n > maxChain {
			p.fail("too many operators in one expression")
		}
		p.i++
		b := &Binary{Op: op, Left: x}
		b.Right = p.binary(l + 1)
		b.Span = p.from(start)
		x = b
	}
}

func (p *parser) unary() Expr {
	start := p.span().Start
	switch w := p.word(); w {
	case "-", "+", "~":
		p.i++
		p.enter()
		defer p.leave()
		x := p.unary()
		return &Unary{p.from(start), w, x}
	}
	return p.power()
}

func (p *parser) power() Expr {
	start := p.span().Start
	await := p.take("await")
	x := p.primary()
	if await {
		x = &Await{p.from(start), x}
	}
	if !p.take("**") {
		return x
	}
	p.enter()
	defer p.leave()
	b := &Binary{Op: "**", Left: x}
	b.Right = p.unary()
	b.Span = p.from(start)
	return b
}

// primary reads an atom and the calls, attributes and subscripts that follow it.
func (p *parser) primary() Expr {
	start := p.span().Start
	x := p.atom()
	for n := 0; ; n++ {
		if n > maxChain {
			p.fail("too many calls and attributes in one expression")
		}
		switch {
		case p.take("."):
			attr := p.ident()
			a := p.nodes.attribute(p.src, x, attr, p.toks[p.i-1].End)
			a.Span = p.from(start)
			x = a
		case p.take("("):
			c := p.nodes.calls.next()
			c.Func, c.Args = x, p.args()
			c.Span = p.from(start)
			x = c
		case p.take("["):
			s := &Subscript{X: x, Index: p.index()}
			p.expect("]")
			s.Span = p.from(start)
			x = s
		default:
			return x
		}
	}
}

func (p *parser) ident() string {
	n := p.name()
	if n == "" {
		p.fail("expected a name")
	}
	p.i++
	return n
}

// args reads the arguments after "(" up to and with ")".
func (p *parser) args() []Arg {
	p.enter()
	defer p.leave()
	noIn, pattern := p.noIn, p.pattern
	p.noIn = false
	defer func() { p.noIn, p.pattern = noIn, pattern }()
	var args []Arg
	for !p.take(")") {
		args = append(args, p.arg())
		if !p.take(",") {
			p.expect(")")
			break
		}
	}
	return args
}

func (p *parser) arg() Arg {
	switch {
	case p.take("*"):
		return Arg{Value: p.expr(), Star: 1}
	case p.take("**"):
		return Arg{Value: p.expr(), Star: 2}
	}
	if p.kind() == tokName && p.wordAt(p.i+1) == "=" {
		name := p.ident()
		p.i++
		return Arg{Name: name, Value: p.namedExpr()}
	}
	if p.is("async") && p.wordAt(p.i+1) == "=" { // a name until Python 3.6: an error, but the call is read
		p.file.fail(p.span(), "expected an expression")
		p.i += 2
		return Arg{Name: "async", Value: p.namedExpr()}
	}
	start := p.span().Start
	x := p.namedExpr()
	if p.is("for") || p.is("async") {
		c := &Comprehension{Kind: '(', Value: x, Clauses: p.clauses()}
		c.Span = p.from(start)
		x = c
	}
	return Arg{Value: x}
}

// index reads what stands between square brackets of a subscript.
func (p *parser) index() Expr {
	p.enter()
	defer p.leave()
	noIn := p.noIn
	p.noIn = false
	defer func() { p.noIn = noIn }()
	start := p.span().Start
	first := p.sliceOrExpr()
	if _, star := first.(*Starred); !star && !p.is(",") {
		return first
	}
	t := &Sequence{Kind: '(', Items: []Expr{first}}
	for p.take(",") && !p.is("]") {
		t.Items = append(t.Items, p.sliceOrExpr())
	}
	t.Span = p.from(start)
	return t
}

func (p *parser) sliceOrExpr() Expr {
	start := p.span().Start
	s := &Slice{}
	if !p.is(":") {
		x := p.starOrExpr()
		if !p.is(":") {
			return x
		}
		s.Low = x
	}
	p.expect(":")
	if !p.is(":") && !p.is("]") && !p.is(",") {
		s.High = p.expr()
	}
	if p.take(":") && !p.is("]") && !p.is(",") {
		s.Step = p.expr()
	}
	s.Span = p.from(start)
	return s
}

// clauses reads the for and if clauses of a comprehension.
func (p *parser) clauses() []Clause {
	var out []Clause
	for {
		p.take("async")
		p.expect("for")
		c := Clause{Target: p.target()}
		p.expect("in")
		c.Iter = p.or()
		for p.take("if") {
			c.Conds = append(c.Conds, p.condition())
		}
		out = append(out, c)
		if !p.is("for") && !p.is("async") {
			return out
		}
	}
}

// condition reads one if of a comprehension; a following "if" starts the next.
func (p *parser) condition() Expr {
	p.enter()
	defer p.leave()
	if p.is("lambda") {
		return p.lambda()
	}
	start := p.span().Start
	x := p.or()
	n, ok := x.(*Name)
	if !ok || !p.take(":=") {
		return x
	}
	w := &Walrus{Target: n, Value: p.or()}
	w.Span = p.from(start)
	return w
}
