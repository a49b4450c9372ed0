package flow

import (
	"slices"
	"strings"

	"github.com/plimsoll/plimsoll/internal/code/pysource"
)

// Exports is what one module shows to its neighbours. It holds no part of the tree, so that it can be kept and written down.
type Exports struct {
	Path      string
	Functions map[string]*FunctionFacts
	Classes   map[string]*ClassFacts
}

// FunctionFacts sums a function up for its callers.
type FunctionFacts struct {
	ID       string   // Module.ID of it
	Params   []string `json:",omitempty"` // names of its parameters, self included
	Return   Value    `json:",omitzero"`  // Value.From tells which of its parameters' graphs it carries
	NoGrad   bool     `json:",omitempty"`
	Backward bool     `json:",omitempty"` // it runs a backward
	ZeroGrad bool     `json:",omitempty"`
	Step     bool     `json:",omitempty"`
	Backs    uint32   `json:",omitempty"` // parameters whose graph it runs a backward over
	Keeps    []Keep   `json:",omitempty"` // what it leaves in self or in a parameter
	Runs     bool     `json:",omitempty"` // it calls a model while recording
	Guarded  bool     `json:",omitempty"` // in one of its branches it switches autograd off itself
	Grads    bool     `json:",omitempty"` // it computes gradients with torch.autograd.grad
	Moves    bool     `json:",omitempty"` // it makes tensors on a device, or moves them there
}

// Keep is something that a function adds to what outlives it.
type Keep struct {
	Into string // "self.sum", or a parameter: "losses"
	Kind StoreKind
	From uint32 // the parameters whose graph is kept
}

// ClassFacts sums a class up; what it inherits stays with its bases.
type ClassFacts struct {
	Bases                            []string `json:",omitempty"` // classes of the project: "Name@path"
	Module, Dataset, Lightning, Bare bool
	Frozen, Passive                  bool                      `json:",omitempty"`
	Foreign                          []string                  `json:",omitempty"`
	FrozenParts                      []string                  `json:",omitempty"` // attributes of self whose gradients a method switches off
	Methods                          map[string]*FunctionFacts `json:",omitempty"`
	Attrs                            map[string]Value          `json:",omitempty"`
}

// Lookup finds the exports of a module by the name an import gives it ("utils", ".engine", "..pkg.data"), or of a file by its
// path after an "@"; nil where it is not a local file.
type Lookup func(module string) *Exports

func (f *FunctionFacts) does(method string) bool {
	if f == nil {
		return false
	}
	switch method {
	case "backward":
		return f.Backward
	case "zero_grad":
		return f.ZeroGrad
	case "step":
		return f.Step
	case "grad":
		return f.Grads
	}
	return false
}

// Exports sums the module up for its neighbours.
func (m *Module) Exports() *Exports {
	e := &Exports{m.Path, map[string]*FunctionFacts{}, map[string]*ClassFacts{}}
	for name, fn := range m.Functions {
		e.Functions[name] = m.exported(fn)
	}
	for name, c := range m.Classes {
		e.Classes[name] = m.exportedClass(c)
	}
	if !strings.HasSuffix(m.Path, "__init__.py") {
		return e
	}
	for local := range m.Imports { // what is passed on: "from .meters import AverageMeter" in an __init__.py
		if fn := m.remoteFunction(m.Imports[local]); fn != nil && e.Functions[local] == nil {
			e.Functions[local] = fn
		}
		if c := m.remoteClass(m.Imports[local]); c != nil && e.Classes[local] == nil {
			e.Classes[local] = c
		}
	}
	return e
}

func (m *Module) exported(fn *Function) *FunctionFacts {
	facts := fn.facts
	facts.ID = m.ID(fn)
	facts.Return = m.portable(facts.Return, 0)
	facts.Backward, facts.ZeroGrad, facts.Step, facts.Grads = m.Reaches(fn, "backward"), m.Reaches(fn, "zero_grad"), m.Reaches(fn, "step"), m.Reaches(fn, "grad")
	return &facts
}

func (m *Module) exportedClass(c *Class) *ClassFacts {
	facts := &ClassFacts{
		Module: c.Module, Dataset: c.Dataset, Lightning: c.Lightning, Bare: c.Bare, Frozen: c.Frozen, Passive: c.Passive, Foreign: c.Foreign,
		FrozenParts: m.frozenParts(c), Methods: map[string]*FunctionFacts{}, Attrs: map[string]Value{},
	}
	facts.Bases = m.basesOf(c)
	for name, fn := range c.Methods {
		facts.Methods[name] = m.exported(fn)
	}
	for name, v := range m.classAttrs(c) {
		if v.Kind != Unknown || v.Class != "" {
			facts.Attrs[name] = m.portable(v, 0)
		}
	}
	return facts
}

// maxBases bounds how far up a chain of base classes is followed, and how deep the parts of a value are.
const maxBases = 8

// portable is a value as another file can hold it: classes of this file get its path, model calls of this file become one.
func (m *Module) portable(v Value, depth int) Value {
	if m.Classes[v.Class] != nil {
		v.Class += "@" + m.Path
	}
	if len(v.Roots) > 1 {
		v.Roots = v.Roots[:1]
	}
	if len(v.Items) > 0 {
		items := make([]Value, len(v.Items))
		for i := range items {
			if depth < maxBases {
				items[i] = m.portable(v.Items[i], depth+1)
			}
		}
		v.Items = items
	}
	return v
}

// remote finds the exports that hold a dotted name, and the name within them.
func (m *Module) remote(dotted string) (*Exports, string) {
	i := strings.LastIndexByte(dotted, '.')
	if i <= 0 || i == len(dotted)-1 || strings.HasPrefix(dotted, "torch.") {
		return nil, ""
	}
	module := dotted[:i]
	if strings.Trim(module, ".") == "" { // "from . import engine": ".engine" is a module, not a name of one
		return nil, ""
	}
	return m.lookup(module), dotted[i+1:]
}

// remoteFunction finds what is known of a function imported from a local file.
func (m *Module) remoteFunction(dotted string) *FunctionFacts {
	e, name := m.remote(dotted)
	if e == nil {
		return nil
	}
	return e.Functions[name]
}

func (m *Module) remoteClass(dotted string) *ClassFacts {
	e, name := m.remote(dotted)
	if e == nil {
		return nil
	}
	return e.Classes[name]
}

// remoteClassName is the portable name of a class imported from a local file.
func (m *Module) remoteClassName(dotted string) string {
	e, name := m.remote(dotted)
	if e == nil || e.Classes[name] == nil {
		return ""
	}
	return name + "@" + e.Path
}

// classFactsOf resolves a Value's class in another file.
func (m *Module) classFactsOf(class string) *ClassFacts {
	name, path, ok := strings.Cut(class, "@")
	if !ok {
		return nil
	}
	if e := m.lookup("@" + path); e != nil {
		return e.Classes[name]
	}
	return nil
}

// findMethod finds a method in a class of another file or its bases.
func (m *Module) findMethod(c *ClassFacts, name string, depth int) *FunctionFacts {
	if found := c.Methods[name]; found != nil || depth > maxBases {
		return found
	}
	for _, base := range c.Bases {
		if parent := m.classFactsOf(base); parent != nil {
			if found := m.findMethod(parent, name, depth+1); found != nil {
				return found
			}
		}
	}
	return nil
}

// findAttr finds what an attribute holds in a class of another file or its bases.
func (m *Module) findAttr(c *ClassFacts, name string, depth int) Value {
	if v, ok := c.Attrs[name]; ok || depth > maxBases {
		return v
	}
	for _, base := range c.Bases {
		if parent := m.classFactsOf(base); parent != nil {
			if v := m.findAttr(parent, name, depth+1); v.Kind != Unknown || v.Class != "" {
				return v
			}
		}
	}
	return Value{}
}

// elsewhere is what is known of a call's function or method where another file holds it.
func (m *Module) elsewhere(c *Call) *FunctionFacts {
	if !c.farKnown {
		c.far, c.farKnown = m.findElsewhere(c), true
	}
	return c.far
}

func (m *Module) findElsewhere(c *Call) *FunctionFacts {
	if facts := m.remoteFunction(c.Name); facts != nil {
		return facts
	}
	if class := m.classFactsOf(c.RecvValue.Class); class != nil && c.Recv != nil {
		return m.findMethod(class, c.Method, 0)
	}
	if name, ok := c.Recv.(*pysource.Name); ok && name.ID == "self" && c.Scope.Func != nil {
		return m.inherited(c.Scope.Func, c.Method)
	}
	return nil
}

// inherited finds a method that self has from a class of another file.
func (m *Module) inherited(fn *Function, method string) *FunctionFacts {
	for ; fn != nil; fn = fn.Outer {
		if fn.Class == nil {
			continue
		}
		for _, base := range fn.Class.Bases {
			if facts := m.remoteClass(base); facts != nil {
				if found := m.findMethod(facts, method, 0); found != nil {
					return found
				}
			}
		}
	}
	return nil
}

// ClassDoes tells whether some method of a class of the project calls a method of that name.
func (m *Module) ClassDoes(class, method string) bool {
	if c := m.Classes[class]; c != nil {
		for _, fn := range c.Methods {
			if m.Reaches(fn, method) {
				return true
			}
		}
		return false
	}
	if facts := m.classFactsOf(class); facts != nil {
		for _, fn := range facts.Methods {
			if fn.does(method) {
				return true
			}
		}
	}
	return false
}

// Facts sums up what a call runs, as far as the project shows it; nil where it does not.
func (s *Scope) Facts(c *Call) *FunctionFacts {
	if fn := s.Callee(c); fn != nil && fn.state == done {
		return &fn.facts
	}
	return s.Module.elsewhere(c)
}

// sumUp fills in the facts of a function that was followed.
func (m *Module) sumUp(fn *Function) {
	s := fn.Scope
	facts := FunctionFacts{Return: fn.Return, NoGrad: fn.NoGrad}
	for _, p := range fn.Node.Params {
		facts.Params = append(facts.Params, p.Name)
	}
	for _, st := range s.Stores {
		if st.Value.From != 0 && st.Ctx.NoGrad != Off && len(facts.Keeps) < maxKeeps && outlives(fn, st.Base) {
			facts.Keeps = append(facts.Keeps, Keep{st.Base, st.Kind, st.Value.From})
		}
	}
	for _, c := range s.Calls {
		switch {
		case c.Method == "backward" && !m.ownBackward(fn, c) || c.Method == "manual_backward":
			facts.Backs |= c.RecvValue.From
			for _, a := range c.Args {
				facts.Backs |= a.From
			}
		default:
			callee := s.Facts(c)
			facts.Moves = facts.Moves || callee != nil && callee.Moves
			if callee != nil && callee.Backs != 0 {
				for i, v := range m.arranged(c, callee.Params) {
					if callee.Backs&bit(i) != 0 {
						facts.Backs |= v.From
					}
				}
			}
		}
		facts.Guarded = facts.Guarded || c.Ctx.NoGrad != Recording && !fn.NoGrad && len(c.Ctx.Branches(nil)) > 0 || s.callsQuiet(c)
		facts.Moves = facts.Moves || m.MovesToGPU(c.Node) && !followsParameter(fn, c.Node)
		facts.Runs = facts.Runs || c.Ctx.NoGrad == Recording && c.Ctx.InnermostLoop() == nil && (runsModel(c) || m.runs(s, c))
	}
	facts.NoGrad = facts.NoGrad || s.allOff()
	facts.Return = freedBy(facts.Return, s.backed(), 0)
	fn.facts = facts
}

// callsQuiet tells whether a call runs a function of the project, with autograd on, that switches it off itself.
func (s *Scope) callsQuiet(c *Call) bool {
	if c.Ctx.NoGrad != Recording {
		return false
	}
	facts := s.Facts(c)
	return facts != nil && (facts.NoGrad || facts.Guarded)
}

// allOff tells whether a body does all its work while autograd is off: one with-block around everything.
func (s *Scope) allOff() bool {
	for _, c := range s.Calls {
		if c.Ctx.NoGrad != Off && c.Name != "torch.no_grad" && c.Name != "torch.inference_mode" {
			return false
		}
	}
	return slices.ContainsFunc(s.Calls, func(c *Call) bool { return c.Ctx.NoGrad == Off })
}

// backed lists the model calls whose graphs a body runs a backward over without keeping them.
func (s *Scope) backed() []int {
	var roots []int
	for _, c := range s.Calls {
		if c.Method != "backward" && c.Method != "manual_backward" || retains(c.Node) || s.OwnBackward(c) {
			continue
		}
		roots = union(roots, c.RecvValue.Roots)
		for _, a := range c.Args {
			roots = union(roots, a.Roots)
		}
	}
	return roots
}

func retains(c *pysource.Call) bool {
	for _, a := range c.Args {
		if anyOf(a.Name, "retain_graph", "create_graph") {
			return true
		}
	}
	return false
}

// freedBy marks the parts of a value whose graphs are all among those that were freed.
func freedBy(v Value, roots []int, depth int) Value {
	if len(roots) == 0 {
		return v
	}
	v.Freed = v.HasGraph()
	for _, r := range v.Roots {
		v.Freed = v.Freed && slices.Contains(roots, r)
	}
	if depth < maxBases {
		items := make([]Value, len(v.Items))
		for i, item := range v.Items {
			items[i] = freedBy(item, roots, depth+1)
		}
		v.Items = items
	}
	return v
}

// maxKeeps bounds what is remembered of one function.
const maxKeeps = 16

func (m *Module) runs(s *Scope, c *Call) bool {
	facts := s.Facts(c)
	return facts != nil && facts.Runs && !facts.NoGrad
}

func runsModel(c *Call) bool {
	return c.Callee.Kind == Model || c.RecvValue.Kind == Model && (c.Method == "forward" || c.Method == "__call__")
}

func bit(i int) uint32 {
	if i < 0 || i >= 32 {
		return 0
	}
	return 1 << i
}

// outlives tells whether what stands at a key is still there when the function has returned: an attribute of self, or a parameter.
func outlives(fn *Function, key string) bool {
	first, _, _ := strings.Cut(key, ".")
	if first == "self" {
		return key != first
	}
	for _, p := range fn.Node.Params {
		if p.Name == first {
			return true
		}
	}
	return false
}

// arranged puts the arguments of a call in the order of the parameters; a receiver fills self.
func (m *Module) arranged(c *Call, params []string) []Value {
	out := make([]Value, len(params))
	next := 0
	if len(params) > 0 && (params[0] == "self" || params[0] == "cls") {
		out[0], next = c.RecvValue, 1
	}
	for i, a := range c.Node.Args {
		if i >= len(c.Args) || a.Star > 0 {
			break
		}
		if a.Name == "" {
			if next < len(out) {
				out[next] = c.Args[i]
			}
			next++
			continue
		}
		for j, p := range params {
			if p == a.Name {
				out[j] = c.Args[i]
			}
		}
	}
	return out
}

// argument finds the expression that fills a parameter.
func argumentFor(c *Call, params []string, name string) pysource.Expr {
	next := 0
	if len(params) > 0 && (params[0] == "self" || params[0] == "cls") {
		next = 1
	}
	for _, a := range c.Node.Args {
		switch {
		case a.Star > 0:
			return nil
		case a.Name == name:
			return a.Value
		case a.Name == "":
			if next < len(params) && params[next] == name {
				return a.Value
			}
			next++
		}
	}
	return nil
}
