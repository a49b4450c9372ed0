// Package flow follows tensors through Python training code without running it.
//
// It takes a syntax tree and, through a Lookup, what is known of the modules next to it and returns, for the file and for each
// of its functions, the calls, stores, bindings, loops and returns in order, each with its surroundings (loops, branches,
// with-blocks) and an abstract Value: is it a model, a loader, a tensor; which model calls is it computed from, so that its
// autograd graph keeps their activations; was it detached, moved to the CPU, divided. It guesses low: a value it cannot trace
// carries no graph. One pass in statement order, branches joined, loop bodies once; it reports nothing and judges nothing.
package flow

import (
	"github.com/plimsoll/plimsoll/internal/code/pysource"
	"slices"
)

// Module is what is known about one file.
type Module struct {
	File      *pysource.File
	Path      string
	Imports   map[string]string // local name → dotted origin
	Classes   map[string]*Class
	Functions map[string]*Function // top-level functions
	All       []*Function          // every function and method, nested ones too, in source order
	Scopes    []*Scope             // the module's own body first, then each function's

	lookup Lookup
	dotted map[string]string // what chains of names stand for, as far as somebody asked
	byNode map[*pysource.Function]*Function
	nested map[nestedKey]*Function
	losses map[string][]int              // names that backward() is called on, and where
	uses   map[string]Kind               // names that are used like a model, an optimizer, a loss function
	byHand map[int]bool                  // numbers of arguments of methods named backward that are not autograd's
	does   map[string]map[*Function]bool // method → functions that reach it; filled when first asked
	sites  map[*Function][]*Call
	calls  *callGraph
	made   struct {
		calls slab[Call]
		binds slab[Bind]
	}
	roots int
	depth int  // functions being followed because another calls them
	whole bool // everything was followed

	gradients *bool // whether the file speaks of requires_grad
}

// Bounds that keep hostile or generated files cheap: a body's first maxRecords calls, stores and bindings are noted, and a chain
// of calls is followed maxDepth functions deep.
const (
	maxRecords = 3000
	maxDepth   = 64
)

type nestedKey struct {
	outer *Function
	name  string
}

// Class is a class of the file.
type Class struct {
	Name    string
	Node    *pysource.Class
	Bases   []string // dotted
	Methods map[string]*Function
	// Module, Dataset and Lightning tell what it derives from, as far as the file and its neighbours show.
	Module, Dataset, Lightning bool
	// Bare modules have no parameters of their own: a loss, a metric.
	Bare bool
	// Frozen modules switch the gradients of all their parameters off when they are made.
	Frozen bool
	// Passive modules register neither parameters nor modules, as far as the class shows: an augmentation that is given numbers.
	Passive bool
	// Plain classes are no modules and hold tensors none of which requires a gradient: weights that are updated by hand.
	Plain bool
	// Foreign are the dotted names of bases outside the project: "transformers.Trainer".
	Foreign []string
	// Ambiguous classes share their name with another of the file.
	Ambiguous bool

	attrs   map[string]Value       // self.x as __init__ leaves it
	setters map[string][]*Function // methods that assign self.x
}

// Function is a function or method.
type Function struct {
	Name   string
	Node   *pysource.Function
	Class  *Class    // nil outside classes
	Outer  *Function // the function it is nested in
	NoGrad bool      // decorated so that no graph is recorded
	Return Value     // what it gives back
	Scope  *Scope
	// Generator functions yield.
	Generator bool

	facts FunctionFacts
	state analysis
	id    string // once somebody asked
	env   *env   // where it was defined
}

type analysis uint8

const (
	untouched analysis = iota
	running
	done
)

// Scope is a body that was followed: a function's or the module's.
type Scope struct {
	Module  *Module
	Func    *Function // nil for the module's own body
	Calls   []*Call
	Stores  []*Store
	Binds   []*Bind
	Loops   []*Loop
	Returns []*Exit
	Tries   []*TrySite
	Deletes []*Delete
	Body    []pysource.Stmt

	env   *env
	order int
}

// Call is one call expression.
type Call struct {
	Scope  *Scope
	Node   *pysource.Call
	Name   string // dotted name where it resolves: "torch.nn.functional.relu"
	Method string // last part of what is called: "backward"
	Recv   pysource.Expr
	// RecvValue is what the method is called on; Callee is the called value itself (a model, a criterion).
	RecvValue, Callee Value
	Args              []Value
	Result            Value
	Ctx               *Context
	Order             int

	callee                *Function      // once everything was followed and somebody asked
	far                   *FunctionFacts // of a function of another file
	knowsCallee, farKnown bool
}

// StoreKind tells how a value was put where it stays.
type StoreKind uint8

// The ways to keep a value.
const (
	Accumulate StoreKind = iota // total += x, total = total + x
	Append                      // list.append(x), .extend, .add
	Index                       // d[k] = x
	Concat                      // acc = torch.cat([acc, x])
	Average                     // avg = 0.9 * avg + 0.1 * x
)

// Store puts a value into something that may outlive the iteration.
type Store struct {
	Kind   StoreKind
	Node   pysource.Node
	Base   string // "losses", "self.losses"
	Holder Value  // what Base held before
	Target pysource.Expr
	Key    pysource.Expr // of an Index store
	Value  Value
	Expr   pysource.Expr // the stored expression
	Via    string        // the method or function that stores it: "update"; empty for a store written out
	Ctx    *Context
	Order  int
}

// Bind gives a name or self.attribute a value.
type Bind struct {
	Name  string
	Node  pysource.Stmt
	Expr  pysource.Expr // nil for loop targets and imports
	Value Value
	Ctx   *Context
	Order int
}

// Exit is a return or yield.
type Exit struct {
	X     pysource.Expr
	Value Value
	Ctx   *Context
	Order int
}

// TrySite is a try statement with its surroundings.
type TrySite struct {
	Node *pysource.Try
	Ctx  *Context
}

// Delete is a name that del removed.
type Delete struct {
	Name  string
	Ctx   *Context
	Order int
}

// Analyze follows a whole file. A nil lookup knows no neighbours.
func Analyze(path string, file *pysource.File, lookup Lookup) *Module {
	lookup = remembering(lookup)
	m := &Module{
		File: file, Path: path, lookup: lookup,
		Imports: map[string]string{}, Classes: map[string]*Class{}, Functions: map[string]*Function{},
		byNode: map[*pysource.Function]*Function{}, nested: map[nestedKey]*Function{}, dotted: map[string]string{}, does: map[string]map[*Function]bool{},
	}
	m.collectImports()
	m.collectUses()
	m.collectDefinitions(file.Body, nil, nil)
	clear(m.dotted) // definitions hide what their names usually stand for
	m.classify()
	root := &Scope{Module: m, Body: file.Body, env: &env{}}
	m.Scopes = []*Scope{root}
	m.follow(root, &Context{})
	for _, fn := range m.All {
		if fn.env == nil {
			fn.env = root.env
		}
		m.analyze(fn)
	}
	m.whole = true
	return m
}

// remembering asks a lookup once for each module.
func remembering(lookup Lookup) Lookup {
	if lookup == nil {
		return func(string) *Exports { return nil }
	}
	known := map[string]*Exports{}
	return func(module string) *Exports {
		e, ok := known[module]
		if !ok {
			e = lookup(module)
			known[module] = e
		}
		return e
	}
}

// analyze follows a function once; a call to one that is being followed already learns nothing. What the first call hands
// over tells what parameters are that their names do not.
func (m *Module) analyze(fn *Function, given ...Value) {
	if fn.state != untouched || m.depth >= maxDepth {
		return
	}
	m.depth++
	defer func() { m.depth-- }()
	fn.state = running
	outer := fn.env
	if outer == nil {
		outer = m.Scopes[0].env
	}
	s := &Scope{Module: m, Func: fn, Body: fn.Node.Body, env: &env{parent: outer}}
	fn.Scope = s
	m.Scopes = append(m.Scopes, s)
	for i, p := range fn.Node.Params {
		var hint Value
		if i < len(given) {
			hint = given[i]
		}
		s.env.set(p.Name, m.paramValue(fn, i, p, hint))
	}
	m.follow(s, &Context{NoGrad: no(!fn.NoGrad)})
	for _, r := range s.Returns {
		fn.Return = join(fn.Return, r.Value)
	}
	if len(s.Returns) > 0 && fn.Generator {
		fn.Return = yielded(fn.Return)
	}
	m.sumUp(fn)
	fn.state = done
}

// yielded is what a call of a generator gives: something to loop over.
func yielded(v Value) Value {
	if v.Kind == Batch {
		return Value{Kind: Loader}
	}
	return Value{Kind: Container, Roots: v.Roots, From: v.From}
}

func no(recording bool) Grad {
	if recording {
		return Recording
	}
	return Off
}

// Reaches tells whether the function calls a method of that name, itself or through functions it calls.
func (m *Module) Reaches(fn *Function, method string) bool {
	if fn == nil {
		return false
	}
	reaching, ok := m.does[method]
	if !ok {
		reaching = m.reaching(method)
		m.does[method] = reaching
	}
	return reaching[fn]
}

// callGraph is who calls whom in a file.
type callGraph struct {
	callers map[*Function][]*Function
	far     []farCall
}

// farCall is a call of a function of another file.
type farCall struct {
	from  *Function
	facts *FunctionFacts
}

func (m *Module) callGraph() *callGraph {
	if m.calls != nil {
		return m.calls
	}
	g := &callGraph{callers: map[*Function][]*Function{}}
	for _, fn := range m.All {
		if fn.Scope == nil {
			continue
		}
		for _, c := range fn.Scope.Calls {
			if callee := m.callee(fn, c); callee != nil {
				g.callers[callee] = append(g.callers[callee], fn)
			}
			if facts := m.elsewhere(c); facts != nil {
				g.far = append(g.far, farCall{fn, facts})
			}
		}
	}
	if m.whole {
		m.calls = g
	}
	return g
}

// reaching walks the calls of the file backwards from those that call the method themselves.
func (m *Module) reaching(method string) map[*Function]bool {
	found := map[*Function]bool{}
	var queue []*Function
	add := func(fn *Function) {
		if !found[fn] {
			found[fn] = true
			queue = append(queue, fn)
		}
	}
	g := m.callGraph()
	for _, fn := range m.All {
		if fn.Scope != nil && slices.ContainsFunc(fn.Scope.Calls, func(c *Call) bool { return c.Method == method && !m.ownBackward(fn, c) }) {
			add(fn)
		}
	}
	for _, far := range g.far {
		if far.facts.does(method) {
			add(far.from)
		}
	}
	for ; len(queue) > 0; queue = queue[1:] {
		for _, caller := range g.callers[queue[0]] {
			add(caller)
		}
	}
	return found
}

// Callee finds the function of this file that a call runs, or nil.
func (s *Scope) Callee(c *Call) *Function { return s.Module.callee(s.Func, c) }

// CallReaches tells whether a call runs, directly or further down, a method of that name.
func (s *Scope) CallReaches(c *Call, method string) bool {
	if c.Method == method && !s.OwnBackward(c) || s.Module.Reaches(s.Callee(c), method) {
		return true
	}
	return s.Module.elsewhere(c).does(method)
}

// callee finds the function of this file that a call in a function runs, or nil.
func (m *Module) callee(from *Function, c *Call) *Function {
	if !m.whole || c.Scope == nil || from != c.Scope.Func {
		return m.findCallee(from, c)
	}
	if !c.knowsCallee {
		c.callee, c.knowsCallee = m.findCallee(from, c), true
	}
	return c.callee
}

func (m *Module) findCallee(from *Function, c *Call) *Function {
	switch f := c.Node.Func.(type) {
	case *pysource.Name:
		for o := from; o != nil; o = o.Outer {
			if fn := m.nested[nestedKey{o, f.ID}]; fn != nil {
				return fn
			}
		}
		return m.Functions[f.ID]
	case *pysource.Attribute:
		if class := m.receiverClass(from, f.X, c.RecvValue); class != nil {
			return m.method(class, f.Attr)
		}
	}
	return nil
}

// receiverClass is the class of this file whose method a call runs: self's own, super()'s, or that of a known object.
func (m *Module) receiverClass(from *Function, x pysource.Expr, v Value) *Class {
	if name, ok := x.(*pysource.Name); ok && (name.ID == "self" || name.ID == "cls") {
		for fn := from; fn != nil; fn = fn.Outer {
			if fn.Class != nil {
				return fn.Class
			}
		}
	}
	if name, ok := x.(*pysource.Name); ok && v.Class == "" && m.Imports[name.ID] == "" {
		return m.Classes[name.ID] // Class.method(…)
	}
	return m.Classes[v.Class]
}

// method finds a method in a class of this file or its bases here.
func (m *Module) method(c *Class, name string) *Function {
	for range 8 {
		if fn := c.Methods[name]; fn != nil {
			return fn
		}
		var next *Class
		for _, b := range c.Bases {
			if next = m.Classes[b]; next != nil {
				break
			}
		}
		if next == nil || next == c {
			return nil
		}
		c = next
	}
	return nil
}

// CallSites lists the calls of a function within the file.
func (m *Module) CallSites(fn *Function) []*Call {
	if m.sites == nil {
		m.sites = map[*Function][]*Call{}
		for _, s := range m.Scopes {
			for _, c := range s.Calls {
				if callee := m.callee(s.Func, c); callee != nil {
					m.sites[callee] = append(m.sites[callee], c)
				}
			}
		}
	}
	return m.sites[fn]
}

// Int folds an expression to a whole number with what the body's names hold at its end.
func (s *Scope) Int(x pysource.Expr) (int64, bool) {
	f := &follower{m: s.Module, s: &Scope{Module: s.Module, Func: s.Func, env: s.env}, env: s.env.fork(), ctx: &Context{}}
	v := f.eval(x)
	return v.Num, v.HasNum
}

// Holds is what a name holds at the body's end.
func (s *Scope) Holds(name string) Value {
	v, ok := s.env.get(name)
	if !ok {
		return named(name)
	}
	return v
}
