package flow

import (
	"bytes"
	"maps"
	"slices"
	"strings"

	"github.com/plimsoll/plimsoll/internal/code/pysource"
)

// freezes tells whether a module's __init__ switches the gradients of all its parameters off: itself, or by a parameter whose default is False, as
// networks do that only compute features for a score.
func (m *Module) freezes(c *Class) bool {
	init := c.Methods["__init__"]
	if init == nil || !m.speaksOfGradients() {
		return false
	}
	found := false
	pysource.WalkBody(init.Node.Body, func(n pysource.Node) bool {
		switch n := n.(type) {
		case *pysource.Call: // self.requires_grad_(False)
			found = found || Key(n.Func) == "self.requires_grad_" && len(n.Args) > 0 && isOff(init.Node, n.Args[0].Value)
		case *pysource.For:
			iter, ok := n.Iter.(*pysource.Call)
			found = found || ok && anyOf(Key(iter.Func), "self.parameters", "self.named_parameters") && switchesOff(init.Node, n.Body)
		}
		return !found
	})
	return found
}

// switchesOff tells whether the body of a loop over parameters sets their requires_grad to False, and does nothing else.
func switchesOff(init *pysource.Function, body []pysource.Stmt) bool {
	if len(body) != 1 {
		return false
	}
	switch st := body[0].(type) {
	case *pysource.Assign:
		return strings.HasSuffix(Key(st.Targets[0]), ".requires_grad") && isOff(init, st.Value)
	case *pysource.ExprStmt:
		c, ok := st.X.(*pysource.Call)
		return ok && strings.HasSuffix(Key(c.Func), ".requires_grad_") && len(c.Args) > 0 && isOff(init, c.Args[0].Value)
	}
	return false
}

// isOff tells whether an expression is False, or a parameter that is False unless somebody says otherwise.
func isOff(init *pysource.Function, x pysource.Expr) bool {
	switch x := x.(type) {
	case *pysource.Constant:
		return x.Text == "False"
	case *pysource.Name:
		for _, p := range init.Params {
			if d, ok := p.Default.(*pysource.Constant); ok && p.Name == x.ID {
				return d.Text == "False"
			}
		}
	}
	return false
}

// FrozenModel tells whether a call runs a model whose class switches off the gradients of all its parameters.
func (s *Scope) FrozenModel(c *Call) bool {
	v := c.Callee
	if v.Kind != Model {
		v = c.RecvValue
	}
	return s.Module.Frozen(v.Class)
}

// Frozen tells it of a class of this file or another.
func (m *Module) Frozen(class string) bool {
	if class == "" {
		return false
	}
	if c := m.Classes[class]; c != nil {
		return c.Frozen
	}
	facts := m.classFactsOf(class)
	return facts != nil && facts.Frozen
}

// Passed is what a call of a function of this file hands over for one of its parameters, and how it is written.
func (c *Call) Passed(fn *Function, param string) (Value, pysource.Expr, bool) {
	params := paramsOf(fn)
	for i, v := range c.Scope.Module.arranged(c, params) {
		if params[i] == param {
			return v, argumentFor(c, params, param), true
		}
	}
	return Value{}, nil, false
}

// frozenParts lists the attributes of self whose gradients methods of a class switch off, and none switches on again:
// self.embedder.requires_grad_(False).
func (m *Module) frozenParts(c *Class) []string {
	if !m.speaksOfGradients() {
		return nil
	}
	off, on := map[string]bool{}, map[string]bool{}
	for _, fn := range c.Methods {
		pysource.WalkBody(fn.Node.Body, func(n pysource.Node) bool {
			switch n := n.(type) {
			case *pysource.Call:
				f, ok := n.Func.(*pysource.Attribute)
				if part := partOfSelf(n.Func); ok && f.Attr == "requires_grad_" && part != "" {
					if len(n.Args) > 0 && isOff(fn.Node, n.Args[0].Value) {
						off[part] = true
					} else {
						on[part] = true
					}
				}
			case *pysource.For:
				iter, ok := n.Iter.(*pysource.Call)
				if !ok {
					break
				}
				part := partOfSelf(iter.Func)
				if Last(Key(iter.Func)) == "parameters" && part != "" && switchesOff(fn.Node, n.Body) {
					off[part] = true
				}
			}
			return true
		})
	}
	maps.DeleteFunc(off, func(part string, _ bool) bool { return on[part] })
	return slices.Sorted(maps.Keys(off))
}

// speaksOfGradients tells whether the file can switch gradients off at all.
func (m *Module) speaksOfGradients() bool {
	if m.gradients == nil {
		found := bytes.Contains(m.File.Source, []byte("requires_grad"))
		m.gradients = &found
	}
	return *m.gradients
}

// partOfSelf is embedder of self.embedder.requires_grad_ and of self.embedder.eval().requires_grad_.
func partOfSelf(x pysource.Expr) string {
	for {
		a, ok := x.(*pysource.Attribute)
		if !ok {
			return ""
		}
		if part, ok := strings.CutPrefix(Key(a.X), "self."); ok && !strings.Contains(part, ".") {
			return part
		}
		c, ok := a.X.(*pysource.Call)
		if !ok {
			return ""
		}
		x = c.Func
	}
}

// FrozenPart tells whether a class, or one that it inherits from, switches off the gradients of an attribute of self.
func (m *Module) FrozenPart(c *Class, part string) bool { return m.frozenPart(c, part, 0) }

func (m *Module) frozenPart(c *Class, part string, depth int) bool {
	if slices.Contains(m.frozenParts(c), part) {
		return true
	}
	return depth < maxBases && slices.ContainsFunc(c.Bases, func(base string) bool {
		if parent := m.Classes[base]; parent != nil {
			return m.frozenPart(parent, part, depth+1)
		}
		return m.remoteFrozenPart(m.remoteClass(base), part, depth+1)
	})
}

func (m *Module) remoteFrozenPart(c *ClassFacts, part string, depth int) bool {
	if c == nil || depth > maxBases {
		return false
	}
	return slices.Contains(c.FrozenParts, part) || slices.ContainsFunc(c.Bases, func(base string) bool {
		return m.remoteFrozenPart(m.classFactsOf(base), part, depth+1)
	})
}
