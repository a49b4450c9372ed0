package flow

import (
	"slices"
	"strings"

	"github.com/plimsoll/plimsoll/internal/code/pysource"
)

// call follows one call: receiver, arguments, then what it gives.
func (f *follower) call(x *pysource.Call) Value {
	c := f.m.made.calls.next()
	c.Scope, c.Node, c.Name, c.Ctx = f.s, x, f.m.Dotted(x.Func), f.ctx
	switch fn := x.Func.(type) {
	case *pysource.Attribute:
		c.Method, c.Recv = fn.Attr, fn.X
		c.RecvValue = f.eval(fn.X)
		c.Callee = f.calleeValue(fn, c.RecvValue)
	case *pysource.Name:
		c.Method = fn.ID
		c.Callee = f.lookup(fn.ID)
	default:
		c.Callee = f.eval(x.Func)
	}
	if len(x.Args) > 0 {
		c.Args = make([]Value, 0, len(x.Args))
	}
	for _, a := range x.Args {
		c.Args = append(c.Args, f.argument(a.Value))
	}
	c.Order = f.next()
	if len(f.s.Calls) < maxRecords {
		f.s.Calls = append(f.s.Calls, c)
	}
	c.Result = f.result(c)
	if f.ctx.NoGrad == Off && c.Result.Kind != Container {
		c.Result.Roots, c.Result.From = nil, 0 // what is computed here has no graph, whatever it is computed from
	}
	f.effects(c)
	f.keepings(c)
	return c.Result
}

// argument follows one argument; the body of a lambda is left alone, it runs elsewhere.
func (f *follower) argument(x pysource.Expr) Value {
	if _, ok := x.(*pysource.Lambda); ok {
		return Value{}
	}
	return f.eval(x)
}

// calleeValue is the value of "x.attr" where it is called: self.model, nets["a"].model.
func (f *follower) calleeValue(fn *pysource.Attribute, recv Value) Value {
	if key := Key(fn); key != "" {
		if v, ok := f.env.get(key); ok {
			return v
		}
		if rest, ok := strings.CutPrefix(key, "self."); ok && !strings.Contains(rest, ".") {
			if f.ownMethod(rest) {
				return Value{}
			}
			return f.selfAttribute(rest)
		}
	}
	if recv.Class != "" {
		if v := f.m.attributeOf(recv, fn.Attr); v.Kind != Unknown || v.Class != "" {
			return v
		}
	}
	if recv.Kind == Unknown && f.m.Imports[firstName(fn)] == "" {
		if v := named(fn.Attr); v.Kind == Model || v.Kind == Criterion {
			return v
		}
	}
	return Value{}
}

func (f *follower) ownMethod(name string) bool {
	for fn := f.s.Func; fn != nil; fn = fn.Outer {
		if fn.Class != nil {
			return f.m.method(fn.Class, name) != nil || f.m.inherited(fn, name) != nil
		}
	}
	return false
}

// effects are what a call does besides its result: appending, switching autograd off.
func (f *follower) effects(c *Call) {
	switch c.Method {
	case "append", "extend", "add", "appendleft", "append_", "insert":
		if len(c.Args) == 0 || c.Recv == nil || c.Node.Args[len(c.Args)-1].Star > 0 {
			return
		}
		key := Key(innermost(c.Recv))
		if key == "" || slices.Contains(f.own, key) || c.Method == "add" && c.RecvValue.Kind != Container || c.RecvValue.Class != "" && f.s.Facts(c) != nil {
			return
		}
		last := len(c.Args) - 1
		f.store(&Store{Kind: Append, Node: c.Node, Base: key, Target: c.Recv, Value: c.Args[last], Expr: c.Node.Args[last].Value})
		f.keep(key, c.Args[last])
	case "add_", "sub_", "lerp_":
		if key := chainKey(c.Recv); key != "" && len(c.Args) > 0 {
			f.store(&Store{Kind: Accumulate, Node: c.Node, Base: key, Target: c.Recv, Value: c.Args[0], Expr: c.Node.Args[0].Value})
			if v, ok := f.env.get(key); ok {
				f.env.set(key, combine(v, c.Args[0]))
			}
		}
	case "update":
		if key := Key(c.Recv); c.Recv != nil && key != "" && c.RecvValue.Kind == Container && len(c.Args) > 0 {
			f.keep(key, c.Args[0])
		}
	case "div_", "mul_":
		if c.Recv == nil {
			return
		}
		if v, ok := f.env.get(Key(c.Recv)); ok {
			v.Divided = true
			f.env.set(Key(c.Recv), v)
		}
	case "requires_grad_", "retain_grad":
		if c.Recv != nil {
			f.requireGrad(Key(c.Recv))
		}
	}
}

// chainKey is the place a chain of in-place methods starts at: avg of avg.mul_(d).add_(x).
func chainKey(x pysource.Expr) string {
	for range 4 {
		c, ok := x.(*pysource.Call)
		if !ok {
			break
		}
		a, ok := c.Func.(*pysource.Attribute)
		if !ok {
			return ""
		}
		x = a.X
	}
	if x == nil {
		return ""
	}
	return Key(innermost(x))
}

// keepings are the stores that a called function or method of the project makes with what it is given.
func (f *follower) keepings(c *Call) {
	facts := f.s.Facts(c)
	if facts == nil && c.Callee.Class != "" {
		facts = f.m.methodFacts(c.Callee.Class, "__call__")
	}
	if facts == nil || len(facts.Keeps) == 0 || facts.NoGrad || f.ctx.NoGrad == Off {
		return
	}
	args := f.m.arranged(c, facts.Params)
	for _, k := range growingFirst(facts.Keeps) {
		kept, at := Value{}, -1
		for i, a := range args {
			if k.From&bit(i) != 0 && a.Carries() {
				kept, at = combine(kept, a), i
			}
		}
		base := f.keptIn(c, facts, k.Into)
		if at < 0 || base == "" {
			continue
		}
		x := argumentFor(c, facts.Params, facts.Params[at])
		if x == nil {
			x = c.Node
		}
		f.store(&Store{Kind: k.Kind, Node: c.Node, Base: base, Target: c.Node.Func, Value: kept, Expr: x, Via: c.Method})
		f.keep(base, kept)
		return // one store says enough
	}
}

// growingFirst puts what grows with every call before what is overwritten.
func growingFirst(keeps []Keep) []Keep {
	out := slices.Clone(keeps)
	slices.SortStableFunc(out, func(a, b Keep) int { return overwrites(a) - overwrites(b) })
	return out
}

func overwrites(k Keep) int {
	if k.Kind == Index {
		return 1
	}
	return 0
}

// keptIn is where the caller finds what a function keeps: "self.sum" of meter.update is "meter.sum".
func (f *follower) keptIn(c *Call, facts *FunctionFacts, into string) string {
	first, rest, attr := strings.Cut(into, ".")
	var owner string
	switch {
	case first == "self" && c.Recv != nil && c.Callee.Class == "":
		owner = Key(innermost(c.Recv))
	case first == "self":
		owner = Key(innermost(c.Node.Func)) // an object that is called
	default:
		if x := argumentFor(c, facts.Params, first); x != nil {
			owner = Key(innermost(x))
		}
	}
	if owner == "" || !attr {
		return owner
	}
	return owner + "." + rest
}

// methodFacts is what is known of a method of a class of this file or another.
func (m *Module) methodFacts(class, method string) *FunctionFacts {
	if c := m.Classes[class]; c != nil {
		if fn := m.method(c, method); fn != nil {
			if m.analyze(fn); fn.state == done {
				return &fn.facts
			}
		}
		return nil
	}
	if facts := m.classFactsOf(class); facts != nil {
		return m.findMethod(facts, method, 0)
	}
	return nil
}

// result is what a call gives back.
func (f *follower) result(c *Call) Value {
	all := combine(c.Args...)
	if c.Callee.Class != "" && c.Callee.Kind != Model {
		if facts := f.m.methodFacts(c.Callee.Class, "__call__"); facts != nil {
			v := f.given(facts, f.m.arranged(c, facts.Params))
			if c.Callee.Kind == Criterion {
				v = asLoss(v, all, 0)
			}
			return v
		}
		if facts := f.m.methodFacts(c.Callee.Class, "forward"); facts != nil && c.Callee.Kind == Criterion && len(facts.Return.Items) > 0 {
			return asLoss(f.given(facts, f.m.arranged(c, facts.Params)), all, 0)
		}
	}
	switch c.Callee.Kind {
	case Model:
		return f.modelCall(c)
	case Criterion:
		v := combine(c.Args...)
		v.Kind, v.Reduced, v.Divided = Tensor, true, false
		v.Guess = c.Callee.Guess && named(Key(c.Node.Func)).Kind != Criterion // only the use of its result says so
		return v
	case Activation:
		return all
	}
	if c.Recv != nil && !f.isModule(c.Recv) {
		if v, ok := f.method(c, all); ok {
			return v
		}
	}
	if v, ok := f.ownCall(c); ok {
		return v
	}
	if v, ok := f.library(c, all); ok {
		return v
	}
	if v, ok := builtin(c, all); ok {
		return v
	}
	return Value{}
}

// asLoss is what a loss function gives where following it did not find its graph: that of what it was given, but for numbers.
func asLoss(v, args Value, depth int) Value {
	if v.HasGraph() || v.Kind == Scalar || depth > maxBases {
		return v
	}
	v.Roots, v.From = args.Roots, args.From
	if v.Kind == Unknown {
		v.Kind, v.Reduced = Tensor, true
	}
	if slices.ContainsFunc(v.Items, Value.Carries) {
		return v // the loss was found among them; the others are what they are
	}
	items := make([]Value, len(v.Items))
	for i, item := range v.Items {
		items[i] = asLoss(item, args, depth+1)
	}
	v.Items = items
	return v
}

// isModule tells whether a receiver is an imported module, so that the call is a function and not a method.
func (f *follower) isModule(recv pysource.Expr) bool {
	first := firstName(recv)
	_, bound := f.env.get(first)
	return first != "" && !bound && (f.m.Imports[first] != "" || usual[first] != "")
}

// modelCall starts a graph where autograd records.
func (f *follower) modelCall(c *Call) Value {
	if name := Key(c.Node.Func); c.Callee.Kind == Model && c.Callee.Guess && name != "" && !strings.Contains(name, "_") && len(c.Node.Args) > 0 && settings[Last(Key(c.Node.Args[0].Value))] {
		return Value{Kind: Model, Guess: true} // model(opt): what was found under a name is a class
	}
	v := Value{Kind: Tensor}
	if facts := f.s.Forward(c); facts != nil && (facts.NoGrad || facts.Guarded && !facts.Return.Carries() && facts.Return.IsTensor()) {
		return v
	}
	for _, a := range c.Args {
		v.Roots, v.From = union(v.Roots, a.Roots), v.From|a.From
	}
	switch {
	case f.ctx.NoGrad == Off:
		v.Roots, v.From = nil, 0
	case !f.s.FrozenModel(c):
		v.Roots = union(v.Roots, []int{f.newRoot()})
	}
	for _, a := range c.Node.Args {
		if k, ok := a.Value.(*pysource.Constant); ok && a.Name == "return_loss" && k.Text == "False" {
			v.OnCPU = true // mmcv's and mmdet's models give NumPy results then
		}
	}
	f.forwardParts(c, &v)
	return v
}

// forwardParts tells the numbers among what a forward of the project returns from its tensors.
func (f *follower) forwardParts(c *Call, v *Value) {
	facts := f.s.Forward(c)
	if facts == nil || len(facts.Return.Items) == 0 {
		return
	}
	v.Keys = facts.Return.Keys
	v.Items = computed(facts.Return.Items, *v, 0)
	v.Kind = Container
}

// computed are the parts of what a forward returns: numbers and objects of the project as they are, the rest as tensors with the graph of the call.
func computed(parts []Value, call Value, depth int) []Value {
	out := make([]Value, len(parts))
	found := slices.ContainsFunc(parts, Value.Carries) // where the graph of one is seen, one that is not seen may have none: an accuracy
	for i, item := range parts {
		switch {
		case item.Kind == Scalar || item.Kind == Unknown && (item.Class != "" || found && !item.Carries()):
			out[i] = item
		case item.Kind == Container && len(item.Items) > 0 && depth < maxBases:
			out[i] = Value{Kind: Container, Keys: item.Keys, Items: computed(item.Items, call, depth+1)}
			for _, part := range out[i].Items {
				out[i].Roots, out[i].From = union(out[i].Roots, part.Roots), out[i].From|part.From
			}
		default:
			out[i] = Value{Kind: Tensor, Roots: call.Roots, From: call.From, Reduced: item.Reduced}
		}
	}
	return out
}

// Forward is what is known of the forward that a call of a model runs; nil where the project does not show it.
func (s *Scope) Forward(c *Call) *FunctionFacts {
	class := c.Callee.Class
	if c.Callee.Kind != Model {
		class = c.RecvValue.Class
	}
	if class == "" || strings.HasPrefix(class, "torch.") {
		return nil
	}
	return s.Module.methodFacts(class, "forward")
}

func (f *follower) newRoot() int { f.m.roots++; return f.m.roots }

// ownCall is a call of a function, method or class of the project.
func (f *follower) ownCall(c *Call) (Value, bool) {
	if v, ok := f.constructed(c); ok {
		return v, true
	}
	if fn := f.m.callee(f.s.Func, c); fn != nil {
		args := f.m.arranged(c, paramsOf(fn))
		f.m.analyze(fn, args...)
		if fn.state != done {
			return Value{}, false
		}
		return f.given(&fn.facts, args), true
	}
	if facts := f.m.elsewhere(c); facts != nil {
		return f.given(facts, f.m.arranged(c, facts.Params)), true
	}
	return Value{}, false
}

func paramsOf(fn *Function) []string {
	names := make([]string, len(fn.Node.Params))
	for i, p := range fn.Node.Params {
		names[i] = p.Name
	}
	return names
}

// constructed is an instance of a class of the project.
func (f *follower) constructed(c *Call) (Value, bool) {
	if name, ok := c.Node.Func.(*pysource.Name); ok {
		if cl := f.m.Classes[name.ID]; cl != nil {
			return instance(cl.facts(), cl.Name), true
		}
	}
	if facts := f.m.remoteClass(c.Name); facts != nil {
		return instance(*facts, f.m.remoteClassName(c.Name)), true
	}
	return Value{}, false
}

func instance(facts ClassFacts, name string) Value {
	bare, _, _ := strings.Cut(name, "@")
	switch {
	case facts.Module && (strings.HasSuffix(bare, "Loss") || strings.HasSuffix(bare, "Criterion")):
		return Value{Kind: Criterion, Class: name}
	case facts.Module && facts.Bare:
		return Value{Kind: Activation, Class: name}
	case facts.Module:
		return Value{Kind: Model, Class: name}
	case facts.Dataset:
		return Value{Kind: Dataset, Class: name}
	}
	return Value{Class: name}
}

// given is a function's result as its caller sees it: a graph made inside becomes one root here, that of an argument stays.
func (f *follower) given(facts *FunctionFacts, args []Value) Value {
	if facts.NoGrad || f.ctx.NoGrad == Off {
		return regrown(facts.Return, nil, nil, 0)
	}
	var fresh []int
	if facts.Return.HasGraph() {
		fresh = []int{f.newRoot()}
	}
	return regrown(facts.Return, fresh, args, 0)
}

func regrown(v Value, fresh []int, args []Value, depth int) Value {
	own, from := v.HasGraph(), v.From
	v.Roots, v.From = nil, 0
	if own {
		v.Roots = fresh
	}
	for i, a := range args {
		if from&bit(i) == 0 {
			continue
		}
		v.Roots, v.From = union(v.Roots, a.Roots), v.From|a.From
		v.OnGPU = v.OnGPU || a.OnGPU && !v.OnCPU
		v.Grad, v.Trained = v.Grad || a.Grad, v.Trained || a.Trained
		if v.Kind == Unknown && a.IsTensor() {
			v.Kind, v.OnCPU = a.Kind, v.OnCPU || a.OnCPU
		}
	}
	if v.Kind == Unknown && v.HasGraph() {
		v.Kind = Tensor
	}
	items := v.Items
	v.Items = nil
	for _, item := range items {
		if depth < maxBases {
			v.Items = append(v.Items, regrown(item, fresh, args, depth+1))
		}
	}
	if len(v.Items) != len(v.Keys) {
		v.Keys = nil
	}
	return v
}
