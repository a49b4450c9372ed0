package flow

import (
	"slices"
	"strings"

	"github.com/plimsoll/plimsoll/internal/code/pysource"
)

// plain tells whether a class is no module and holds only numbers and tensors that require no gradient: a network whose gradients are computed by
// hand. What it computes has no graph.
func (m *Module) plain(c *Class) bool {
	init := c.Methods["__init__"]
	if c.Module || init == nil || slices.ContainsFunc(c.Bases, func(b string) bool { return b != "object" }) || mentionsAny(c.Node.Body, differentiable) {
		return false
	}
	tensors, others := false, false
	pysource.WalkBody(init.Node.Body, func(n pysource.Node) bool {
		a, ok := n.(*pysource.Assign)
		if !ok || !strings.HasPrefix(Key(a.Targets[0]), "self.") {
			return true
		}
		made := m.maker(a.Value)
		tensor := strings.HasPrefix(made, "torch.") && factories[Last(made)]
		tensors = tensors || tensor
		others = others || made != "" && !tensor && !m.plainAttribute(init.Node, a.Value) || named(Key(a.Value)).Kind != Unknown || c.Methods["__call__"] != nil
		return true
	})
	return tensors && !others
}

// maker is the function that a chain of calls starts with: torch.zeros of torch.zeros(3).normal_(). Empty for what is not made by a call.
func (m *Module) maker(x pysource.Expr) string {
	made := ""
	for {
		c, ok := x.(*pysource.Call)
		if !ok {
			return made
		}
		if made = m.Dotted(c.Func); made == "" {
			made = "?"
		}
		a, ok := c.Func.(*pysource.Attribute)
		if !ok {
			return made
		}
		x = a.X
	}
}

// differentiable are the words by which a class that is no module shows that autograd follows its tensors after all.
func differentiable(w string) bool {
	return anyOf(w, "requires_grad", "requires_grad_", "Parameter", "Variable", "autograd", "nn", "grad", "load", "parameters")
}

// mentionsAny tells whether a name, an attribute or the name of an argument in a body satisfies the predicate.
func mentionsAny(body []pysource.Stmt, ok func(string) bool) bool {
	found := false
	pysource.WalkBody(body, func(n pysource.Node) bool {
		switch n := n.(type) {
		case *pysource.Name:
			found = found || ok(n.ID)
		case *pysource.Attribute:
			found = found || ok(n.Attr)
		case *pysource.Call:
			found = found || slices.ContainsFunc(n.Args, func(a pysource.Arg) bool { return ok(a.Name) })
		}
		return !found
	})
	return found
}

// plainInstance tells whether a value is an object of a plain class, whatever name it is given.
func (m *Module) plainInstance(v Value) bool {
	c := m.Classes[v.Class]
	return c != nil && c.Plain
}

// OwnBackward tells whether a call of backward() runs a method of the file that computes gradients by hand.
func (s *Scope) OwnBackward(c *Call) bool { return s.Module.ownBackward(s.Func, c) }

func (m *Module) ownBackward(from *Function, c *Call) bool {
	if c.Method != "backward" || c.Recv == nil {
		return false
	}
	fn := m.callee(from, c)
	return fn != nil && byHand(fn.Node)
}

// byHand tells whether a method named backward hands nothing on to autograd.
func byHand(fn *pysource.Function) bool {
	return !mentionsAny(fn.Body, func(w string) bool { return anyOf(w, "backward", "autograd", "grad", "manual_backward") })
}

// handwritten are the numbers of arguments, self apart, of the methods of a file that are named backward and are not autograd's.
func handwritten(body []pysource.Stmt) map[int]bool {
	var out map[int]bool
	for _, s := range body {
		c, ok := s.(*pysource.Class)
		if !ok || slices.ContainsFunc(c.Args, func(a pysource.Arg) bool { return strings.HasSuffix(Key(a.Value), "Function") }) {
			continue
		}
		for _, s := range c.Body {
			if fn, ok := s.(*pysource.Function); ok && fn.Name == "backward" && len(fn.Params) > 1 && byHand(fn) {
				if out == nil {
					out = map[int]bool{}
				}
				out[len(fn.Params)-1] = true
			}
		}
	}
	return out
}
