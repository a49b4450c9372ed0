package flow

import (
	"slices"
	"strings"

	"github.com/plimsoll/plimsoll/internal/code/pysource"
)

// Use is a call of a function of the project, as seen where it is called.
type Use struct {
	Target string // an ID, or ".name" for a method of something unknown
	In     string // the ID of the function that calls; empty: the file's own body
	Grad   Grad   // autograd's state there
}

// ID names a function across the project: "validate@engine.py", "Trainer.step@train.py".
func (m *Module) ID(fn *Function) string {
	if fn == nil {
		return ""
	}
	name := fn.Name
	for o := fn; o != nil; o = o.Outer {
		if o != fn {
			name = o.Name + "." + name
		}
		if o.Class != nil {
			name = o.Class.Name + "." + name
		}
	}
	return name + "@" + m.Path
}

// Uses lists the calls of functions of the project, each once for every caller and state of autograd.
func (m *Module) Uses() []Use {
	seen := map[Use]bool{}
	var out []Use
	add := func(u Use) {
		if !seen[u] {
			seen[u] = true
			out = append(out, u)
		}
	}
	for _, s := range m.Scopes {
		in := m.ID(s.Func)
		for _, c := range s.Calls {
			if target := m.target(s, c); target != "" {
				add(Use{target, in, c.Ctx.NoGrad})
			}
			for _, a := range c.Node.Args { // handed over, to be called: trainer.add_handler(event, validate)
				if name, ok := a.Value.(*pysource.Name); ok && m.Functions[name.ID] != nil && c.Method != "partial" {
					add(Use{m.ID(m.Functions[name.ID]), in, c.Ctx.NoGrad})
				}
			}
		}
	}
	return out
}

func (m *Module) target(s *Scope, c *Call) string {
	if fn := m.callee(s.Func, c); fn != nil {
		return m.ID(fn)
	}
	if facts := m.elsewhere(c); facts != nil {
		return facts.ID
	}
	if c.Recv != nil && ownName(c.Method) && m.Imports[firstName(c.Recv)] == "" && !c.RecvValue.IsTensor() && c.RecvValue.Kind != Scalar && c.RecvValue.Kind != Container {
		return "." + c.Method
	}
	return ""
}

// ownName tells whether a method's name is long enough to be the project's own rather than anybody's.
func ownName(name string) bool {
	return len(name) > 7 || strings.Contains(name, "_") || slices.Contains([]string{"evaluate", "validate", "predict", "encode", "extract", "test", "infer", "eval"}, name)
}
