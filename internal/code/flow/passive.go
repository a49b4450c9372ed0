package flow

import (
	"strings"

	"github.com/plimsoll/plimsoll/internal/code/pysource"
)

// passive tells whether a module registers neither parameters nor modules: its __init__ keeps what certainly holds none, or optional arguments that no
// method calls, looks into or hands on.
func (m *Module) passive(c *Class) bool {
	init := c.Methods["__init__"]
	if init == nil || c.Methods["forward"] == nil || len(c.Bases) != 1 || c.Bases[0] != "torch.nn.Module" {
		return false
	}
	passive := true
	for _, fn := range c.Methods {
		pysource.WalkBody(fn.Node.Body, func(n pysource.Node) bool {
			switch n := n.(type) {
			case *pysource.Assign:
				key := Key(n.Targets[0])
				if strings.HasPrefix(key, "self.") && !m.plainAttribute(fn.Node, n.Value) {
					passive = passive && fn == init && optionalParam(init.Node, n.Value) && !looksInto(c, key)
				}
			case *pysource.Call:
				passive = passive && !anyOf(Last(Key(n.Func)), "register_parameter", "register_module", "add_module", "setattr")
			}
			return passive
		})
	}
	return passive
}

// optionalParam tells whether an expression is a parameter that is None unless somebody gives it, and is no weight by its name.
func optionalParam(init *pysource.Function, x pysource.Expr) bool {
	name, ok := x.(*pysource.Name)
	if !ok || named(name.ID).Kind != Unknown || anyOf(name.ID, "weight", "weights", "bias", "module", "layer", "layers") {
		return false
	}
	for _, p := range init.Params {
		if d, ok := p.Default.(*pysource.Constant); ok && p.Name == name.ID && p.Annotation == nil {
			return d.Text == "None"
		}
	}
	return false
}

// looksInto tells whether a method of a class calls an attribute, takes something out of it, loops over it or hands it on.
func looksInto(c *Class, key string) bool {
	found := false
	is := func(x pysource.Expr) bool { return x != nil && Key(x) == key }
	for _, fn := range c.Methods {
		pysource.WalkBody(fn.Node.Body, func(n pysource.Node) bool {
			switch n := n.(type) {
			case *pysource.Call:
				found = found || is(n.Func)
				for _, a := range n.Args {
					found = found || is(a.Value)
				}
			case *pysource.Attribute:
				found = found || is(n.X)
			case *pysource.Subscript:
				found = found || is(n.X)
			case *pysource.For:
				found = found || is(n.Iter)
			}
			return !found
		})
	}
	return found
}

// Passive tells whether a class of this file or another registers neither parameters nor modules.
func (m *Module) Passive(class string) bool {
	if c := m.Classes[class]; c != nil {
		return c.Passive
	}
	facts := m.classFactsOf(class)
	return facts != nil && facts.Passive
}
