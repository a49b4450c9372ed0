package lint

import (
	"strconv"
	"strings"

	"github.com/plimsoll/plimsoll/internal/code/flow"
	"github.com/plimsoll/plimsoll/internal/code/pysource"
)

// backward is one backward pass: the call, the value it starts from, whether it keeps the graph.
type backward struct {
	call   *flow.Call
	value  flow.Value
	retain bool
	create bool
}

// backwards lists the backward passes of a body: loss.backward(), scaler.scale(loss).backward(), accelerator.backward(loss),
// and calls of functions that run one on what they are given.
func (p *pass) backwards(s *flow.Scope) []backward {
	out, ok := p.known.backs[s]
	if !ok {
		out = findBackwards(s)
		p.known.backs[s] = out
	}
	return out
}

func findBackwards(s *flow.Scope) []backward {
	var out []backward
	for _, c := range s.Calls {
		switch {
		case c.Method == "backward" && c.Recv != nil && !s.OwnBackward(c) || c.Method == "manual_backward":
			b := backward{call: c, value: c.RecvValue, retain: isTrue(keyword(c.Node, "retain_graph")), create: isTrue(keyword(c.Node, "create_graph"))}
			if len(c.Args) > 0 && c.Node.Args[0].Name == "" && !c.RecvValue.HasGraph() && c.Args[0].Kind != flow.Scalar {
				b.value = c.Args[0]
			}
			if scaled, ok := c.Recv.(*pysource.Call); ok && !b.value.HasGraph() { // self.D_scaler.scale(loss).backward()
				if site := callSite(s, scaled); site != nil && site.Method == "scale" && len(site.Args) == 1 {
					b.value = site.Args[0]
				}
			}
			out = append(out, b)
		case c.Callee.Kind == flow.Scaler && len(c.Args) > 0:
			out = append(out, backward{call: c, value: c.Args[0]})
		case len(c.Args) > 0 && c.Method != "backward" && s.CallReaches(c, "backward"):
			v := flow.Value{}
			for _, a := range c.Args {
				v.Roots = append(v.Roots, a.Roots...)
			}
			out = append(out, backward{call: c, value: v})
		}
	}
	return out
}

// keyword finds a named argument, or nil.
func keyword(c *pysource.Call, name string) pysource.Expr {
	for _, a := range c.Args {
		if a.Name == name {
			return a.Value
		}
	}
	return nil
}

// splat tells whether a call passes *args or **kwargs, so that any argument may be among them.
func splat(c *pysource.Call) bool {
	for _, a := range c.Args {
		if a.Star > 0 {
			return true
		}
	}
	return false
}

func positional(c *pysource.Call, i int) pysource.Expr {
	for _, a := range c.Args {
		if a.Name != "" || a.Star > 0 {
			return nil
		}
		if i == 0 {
			return a.Value
		}
		i--
	}
	return nil
}

func isTrue(x pysource.Expr) bool {
	k, ok := x.(*pysource.Constant)
	return ok && k.Text == "True"
}

func isFalse(x pysource.Expr) bool {
	k, ok := x.(*pysource.Constant)
	return ok && k.Text == "False"
}

// literal reads a whole number written out.
func literal(x pysource.Expr) (int, bool) {
	n, ok := x.(*pysource.Number)
	if !ok {
		return 0, false
	}
	v, err := strconv.Atoi(n.Text)
	return v, err == nil
}

// mentions tells whether a name, or an attribute chain such as self.losses, occurs below a node.
func mentions(n pysource.Node, key string) bool {
	found := false
	pysource.Walk(n, func(n pysource.Node) bool {
		if x, ok := n.(pysource.Expr); ok && flow.Key(x) == key {
			found = true
		}
		return !found
	})
	return found
}

// on is an expression with a method called on it, in parentheses where it needs them.
func (p *pass) on(x pysource.Expr, method string) string {
	switch x.(type) {
	case *pysource.Name, *pysource.Attribute, *pysource.Call, *pysource.Subscript:
		return p.text(x) + method
	}
	return "(" + p.text(x) + ")" + method
}

// words tells whether any identifier below a node satisfies the predicate.
func words(n pysource.Node, ok func(string) bool) bool {
	found := false
	pysource.Walk(n, func(n pysource.Node) bool {
		switch n := n.(type) {
		case *pysource.Name:
			found = found || ok(n.ID)
		case *pysource.Attribute:
			found = found || ok(n.Attr)
		case *pysource.Call:
			for _, a := range n.Args {
				found = found || a.Name != "" && ok(a.Name)
			}
		}
		return !found
	})
	return found
}

func bodyHas(body []pysource.Stmt, ok func(string) bool) bool {
	for _, s := range body {
		if words(s, ok) {
			return true
		}
	}
	return false
}

// texts tells whether a string literal below a node contains one of the words, in lower case.
func texts(n pysource.Node, any ...string) bool {
	found := false
	pysource.Walk(n, func(n pysource.Node) bool {
		if s, ok := n.(*pysource.String); ok {
			lower := strings.ToLower(s.Value)
			for _, w := range any {
				found = found || strings.Contains(lower, w)
			}
		}
		return !found
	})
	return found
}

// inModule tells whether a body belongs to a plain nn.Module, whose loops build its own output.
func inModule(s *flow.Scope) bool {
	for fn := s.Func; fn != nil; fn = fn.Outer {
		if fn.Class != nil {
			return fn.Class.Module && (!fn.Class.Lightning || fn.Name == "forward")
		}
	}
	return false
}

// usesGPU tells whether the file has to do with an accelerator at all.
func (p *pass) usesGPU() bool {
	return p.sourceHas("cuda", "device", "gpu", "GPU", "accelerat", "xpu", "mps", "Trainer", "fabric")
}

// imports tells whether the file imports from a package.
func (p *pass) imports(pkg string) bool {
	for _, origin := range p.m.Imports {
		if origin == pkg || strings.HasPrefix(origin, pkg+".") {
			return true
		}
	}
	return false
}

// loaderAlone tells whether the file has nothing of PyTorch but its data loading, which feeds models of other frameworks as well.
func (p *pass) loaderAlone() bool { return p.m.LoaderAlone() }

// text is a node's source on one line, short enough to quote.
func (p *pass) text(n pysource.Node) string {
	t := strings.Join(strings.Fields(p.m.File.Text(n)), " ")
	if r := []rune(t); len(r) > 50 {
		t = string(r[:49]) + "…"
	}
	return t
}

// rebound tells whether a name gets a new value inside a loop, so that what it held does not survive for long.
func rebound(s *flow.Scope, key string, l *flow.Loop) bool {
	always, sometimes := reset(s, key, l)
	return always || sometimes
}

// reset tells whether what stands at a key, or the object it belongs to, starts afresh in each iteration of a loop, or in some: every
// hundred steps, when it is logged.
func reset(s *flow.Scope, key string, l *flow.Loop) (always, sometimes bool) {
	owner := func(name string) bool { return name == key || strings.HasPrefix(key, name+".") }
	note := func(ctx *flow.Context) {
		for _, b := range ctx.Branches(l) {
			if modulus(b.Test) != nil {
				sometimes = true
				return
			}
		}
		always = true
	}
	for _, b := range s.Binds {
		if !owner(b.Name) || !b.Ctx.Inside(l) {
			continue
		}
		a, ok := b.Node.(*pysource.Assign)
		if !ok || a.Op == "" && !(b.Expr != nil && mentions(b.Expr, key)) {
			note(b.Ctx)
		}
	}
	for _, d := range s.Deletes {
		if owner(d.Name) && d.Ctx.Inside(l) {
			note(d.Ctx)
		}
	}
	for _, c := range s.Calls {
		if c.Recv != nil && c.Ctx.Inside(l) && owner(flow.Key(c.Recv)) && (c.Method == "clear" || c.Method == "pop" || c.Method == "popleft" || c.Method == "reset") {
			note(c.Ctx)
		}
	}
	return always, sometimes && !always
}

// tokens splits an identifier into lower-case words: "evaluateModel" and "evaluate_model" alike.
func tokens(name string) []string {
	var b strings.Builder
	for i, r := range name {
		if i > 0 && r >= 'A' && r <= 'Z' {
			b.WriteByte('_')
		}
		b.WriteRune(r)
	}
	return strings.FieldsFunc(strings.ToLower(b.String()), func(r rune) bool { return r == '_' })
}

func oneOf(s string, list ...string) bool {
	for _, w := range list {
		if s == w {
			return true
		}
	}
	return false
}
