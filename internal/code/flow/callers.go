package flow

import (
	_ "embed"
	"maps"
	"slices"
	"strings"

	"github.com/plimsoll/plimsoll/internal/code/pysource"
)

// Use is a call of a function of the project, as seen where it is called.
type Use struct {
	Target string // an ID, or ".name" for a method of something unknown
	In     string // the ID of the function that calls; empty: the file's own body
	Grad   Grad   // autograd's state there; Inherits where it is no call
}

// Inherits marks what is no call: the class Target ("Sub@a.py") derives from the class In, so that what calls a method of In may run that of Target.
const Inherits Grad = 255

// ID names a function across the project: "validate@engine.py", "Trainer.step@train.py".
func (m *Module) ID(fn *Function) string {
	if fn == nil {
		return ""
	}
	if fn.id != "" {
		return fn.id
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
	fn.id = name + "@" + m.Path
	return fn.id
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
			target := m.target(s, c)
			if target != "" {
				add(Use{target, in, c.Ctx.NoGrad})
			}
			if target == "" || target[0] == '.' {
				if virtual := m.own(s, c); virtual != "" {
					add(Use{virtual, in, c.Ctx.NoGrad})
				}
			}
			for _, a := range c.Node.Args { // handed over, to be called: trainer.add_handler(event, validate)
				if name, ok := a.Value.(*pysource.Name); ok && m.Functions[name.ID] != nil && c.Method != "partial" {
					add(Use{m.ID(m.Functions[name.ID]), in, c.Ctx.NoGrad})
				}
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(m.Classes)) {
		for _, base := range m.basesOf(m.Classes[name]) {
			add(Use{name + "@" + m.Path, base, Inherits})
		}
	}
	return out
}

// basesOf lists the classes of the project that a class derives from: "Name@path".
func (m *Module) basesOf(c *Class) []string {
	var out []string
	for _, base := range c.Bases {
		if local := m.Classes[base]; local != nil && local != c {
			out = append(out, base+"@"+m.Path)
		} else if remote := m.remoteClassName(base); remote != "" {
			out = append(out, remote)
		}
	}
	return out
}

// own is the ID of a method that self has from a class nobody has seen: one that a class derived from this one defines.
func (m *Module) own(s *Scope, c *Call) string {
	if name, ok := c.Recv.(*pysource.Name); !ok || name.ID != "self" || c.Callee.Kind != Unknown || c.Callee.Class != "" {
		return ""
	}
	for fn := s.Func; fn != nil; fn = fn.Outer {
		if fn.Class != nil {
			return fn.Class.Name + "." + c.Method + "@" + m.Path
		}
	}
	return ""
}

func (m *Module) target(s *Scope, c *Call) string {
	if fn := m.callee(s.Func, c); fn != nil {
		return m.ID(fn)
	}
	if facts := m.elsewhere(c); facts != nil {
		return facts.ID
	}
	if c.Callee.Class != "" && c.Callee.Kind != Model { // an object that is called
		return m.methodID(c.Callee.Class, "__call__")
	}
	if c.Recv != nil && ownName(c.Method) && m.Imports[firstName(c.Recv)] == "" && !c.RecvValue.IsTensor() && c.RecvValue.Kind != Scalar && c.RecvValue.Kind != Container {
		return "." + c.Method
	}
	return ""
}

// methodID is the ID of a method of a class of this file or another.
func (m *Module) methodID(class, method string) string {
	if c := m.Classes[class]; c != nil {
		return m.ID(m.method(c, method))
	}
	if facts := m.classFactsOf(class); facts != nil {
		if found := m.findMethod(facts, method, 0); found != nil {
			return found.ID
		}
	}
	return ""
}

// ownName tells whether a method's name may be the project's own: not one that everybody's objects have.
func ownName(name string) bool {
	return len(name) > 7 || strings.Contains(name, "_") || len(name) > 3 && !anybodys[name]
}

//go:embed anybodys.txt
var anybodysList string

// anybodys are the names of four to seven letters of methods that Python's own types, tensors, modules, optimizers, arrays, loggers, paths and files have.
var anybodys = func() map[string]bool {
	out := map[string]bool{}
	for _, name := range strings.Fields(anybodysList) {
		out[name] = true
	}
	return out
}()
