package flow

import (
	"strings"

	"github.com/plimsoll/plimsoll/internal/code/pysource"
)

// call follows one call: receiver, arguments, then what it gives.
func (f *follower) call(x *pysource.Call) Value {
	c := &Call{Scope: f.s, Node: x, Name: f.m.Dotted(x.Func), Ctx: f.ctx}
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
	for _, a := range x.Args {
		c.Args = append(c.Args, f.argument(a.Value))
	}
	c.Order = f.next()
	if len(f.s.Calls) < maxRecords {
		f.s.Calls = append(f.s.Calls, c)
	}
	c.Result = f.result(c)
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
		if len(c.Args) == 0 || c.Recv == nil {
			return
		}
		key := Key(innermost(c.Recv))
		if key == "" || c.Method == "add" && c.RecvValue.IsTensor() {
			return
		}
		last := len(c.Args) - 1
		f.store(&Store{Kind: Append, Node: c.Node, Base: key, Target: c.Recv, Value: c.Args[last], Expr: c.Node.Args[last].Value})
		f.keep(key, c.Args[last])
	case "add_", "sub_", "lerp_":
		if key := chainKey(c.Recv); key != "" && len(c.Args) > 0 {
			f.store(&Store{Kind: Accumulate, Node: c.Node, Base: key, Target: c.Recv, Value: c.Args[0], Expr: c.Node.Args[0].Value})
			if v, ok := f.env.get(key); ok {
				f.env.vars[key] = combine(v, c.Args[0])
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
			f.env.vars[Key(c.Recv)] = v
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
	for _, k := range facts.Keeps {
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
		return facts.Methods[method]
	}
	return nil
}

// result is what a call gives back.
func (f *follower) result(c *Call) Value {
	all := combine(c.Args...)
	if c.Callee.Class != "" && c.Callee.Kind != Model {
		if facts := f.m.methodFacts(c.Callee.Class, "__call__"); facts != nil {
			return f.given(facts, f.m.arranged(c, facts.Params))
		}
	}
	switch c.Callee.Kind {
	case Model:
		return f.modelCall(c)
	case Criterion:
		v := combine(c.Args...)
		v.Kind, v.Reduced, v.Divided = Tensor, true, false
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

// isModule tells whether a receiver is an imported module, so that the call is a function and not a method.
func (f *follower) isModule(recv pysource.Expr) bool {
	first := firstName(recv)
	_, bound := f.env.get(first)
	return first != "" && !bound && (f.m.Imports[first] != "" || usual[first] != "")
}

// modelCall starts a graph where autograd records.
func (f *follower) modelCall(c *Call) Value {
	v := Value{Kind: Tensor}
	for _, a := range c.Args {
		v.Roots, v.From = union(v.Roots, a.Roots), v.From|a.From
	}
	if f.ctx.NoGrad != Off {
		v.Roots = union(v.Roots, []int{f.newRoot()})
	} else {
		v.Roots, v.From = nil, 0
	}
	f.forwardParts(c, &v)
	return v
}

// forwardParts tells the numbers among what a forward of the project returns from its tensors.
func (f *follower) forwardParts(c *Call, v *Value) {
	if c.Callee.Class == "" || strings.HasPrefix(c.Callee.Class, "torch.") {
		return
	}
	facts := f.m.methodFacts(c.Callee.Class, "forward")
	if facts == nil || len(facts.Return.Items) == 0 {
		return
	}
	v.Keys = facts.Return.Keys
	v.Items = make([]Value, len(facts.Return.Items))
	for i, item := range facts.Return.Items {
		v.Items[i] = Value{Kind: Tensor, Roots: v.Roots, From: v.From, Reduced: item.Reduced}
		if item.Kind == Scalar {
			v.Items[i] = item
		}
	}
	v.Kind = Container
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

// method is a call on a value.
func (f *follower) method(c *Call, args Value) (Value, bool) {
	recv := c.RecvValue
	switch recv.Kind {
	case Model:
		return f.modelMethod(c)
	case Helper:
		return helperMethod(c)
	case Loader:
		return Value{Kind: Loader}, anyOf(c.Method, "__iter__")
	case Scaler:
		if c.Method == "scale" {
			return args, true
		}
		return Value{}, false
	case Container:
		switch c.Method {
		case "pop", "get", "values", "items", "copy", "popleft":
			if key, ok := stringArg(c.Node); ok && c.Method != "popleft" {
				if part, ok := recv.at(key); ok {
					return part, true
				}
			}
			v := recv.whole()
			if c.Method == "pop" || c.Method == "get" || c.Method == "popleft" {
				v = element(recv, OtherLoop)
			}
			return v, true
		}
		if !recv.HasGraph() {
			return Value{}, false
		}
	}
	if recv.IsTensor() || recv.HasGraph() {
		return f.tensorMethod(c, args), true
	}
	if recv.Kind == Unknown && recv.From != 0 && recv.Class == "" {
		v := f.tensorMethod(c, args)
		if v.Kind == Tensor && !v.HasGraph() {
			v.Kind = Unknown
		}
		return v, true
	}
	if recv.Kind == Unknown {
		// Without knowing the tensor, what detaches still detaches.
		switch c.Method {
		case "item", "tolist", "numpy":
			return scalar(), true
		}
	}
	return Value{}, false
}

func stringArg(c *pysource.Call) (string, bool) {
	if len(c.Args) == 0 {
		return "", false
	}
	s, ok := c.Args[0].Value.(*pysource.String)
	if !ok {
		return "", false
	}
	return s.Value, true
}

func (f *follower) modelMethod(c *Call) (Value, bool) {
	v := c.RecvValue
	switch c.Method {
	case "to", "cuda", "half", "float", "bfloat16", "train", "eval", "requires_grad_", "share_memory", "apply", "compile", "to_empty", "type":
		v.OnCPU = false
		return v, true
	case "cpu":
		v.OnCPU = true
		return v, true
	case "double":
		v.Double = true
		return v, true
	case "parameters", "named_parameters":
		return Value{Kind: Params}, true
	case "forward", "__call__":
		return f.modelCall(c), true
	case "generate":
		return Value{Kind: Tensor}, true
	}
	if own, ok := f.ownCall(c); ok {
		return own, true
	}
	switch {
	case c.Method == "predict":
		return Value{Kind: Tensor}, true
	case strings.HasPrefix(c.Method, "encode") && v.Guess: // also text encoders that give arrays
	case runsForward(c.Method):
		return f.modelCall(c), true
	}
	return Value{}, true
}

// runsForward knows methods of models, and names of their parts, that run a forward pass.
func runsForward(method string) bool {
	for _, prefix := range []string{"forward_", "encode", "extract_feat", "get_image_feature", "get_text_feature"} {
		if strings.HasPrefix(method, prefix) {
			return true
		}
	}
	return anyOf(method, "module", "compute_loss", "get_loss", "calc_loss", "training_step", "validation_step", "test_step", "decoder", "backbone", "head", "bert")
}

// helperMethod is a call on an Accelerator or Fabric: prepare and setup give back what they got.
func helperMethod(c *Call) (Value, bool) {
	switch c.Method {
	case "prepare", "setup", "setup_dataloaders", "prepare_model", "prepare_data_loader":
		if len(c.Args) == 1 {
			return c.Args[0], true
		}
		return Value{Kind: Container, Items: c.Args}, true
	case "gather", "gather_for_metrics", "reduce", "pad_across_processes", "unwrap_model":
		if len(c.Args) == 0 {
			return Value{}, false
		}
		return c.Args[0], true
	}
	return Value{}, false
}

// Methods of a tensor whose result carries no graph: positions, comparisons, integers. Source: torch.autograd marks the
// outputs of these as not differentiable (tools/autograd/derivatives.yaml, output_differentiability, 2.11).
var noGraph = map[string]bool{
	"argmax": true, "argmin": true, "argsort": true, "eq": true, "ne": true, "gt": true, "lt": true, "ge": true, "le": true, "nonzero": true,
	"long": true, "int": true, "bool": true, "isnan": true, "isinf": true, "isfinite": true, "bincount": true, "unique": true, "any": true, "all": true,
	"byte": true, "short": true, "equal": true, "multinomial": true,
}

// Reductions give results that are small whatever the batch holds.
var reductions = map[string]bool{"mean": true, "sum": true, "norm": true, "std": true, "var": true, "prod": true, "nansum": true, "nanmean": true}

func (f *follower) tensorMethod(c *Call, args Value) Value {
	recv := c.RecvValue
	switch c.Method {
	case "item", "tolist":
		return scalar()
	case "numpy":
		v := scalar()
		v.Reduced = recv.Reduced
		return v
	case "size", "dim", "numel", "ndimension", "stride", "element_size", "data_ptr", "get_device", "backward", "keys":
		return scalar()
	case "detach", "detach_":
		return recv.detached()
	case "cpu":
		recv = recv.whole()
		recv.OnCPU, recv.OnGPU = true, false
		return recv
	case "cuda":
		recv.OnCPU, recv.OnGPU = false, true
		return recv
	case "to":
		recv = recv.whole()
		if len(c.Node.Args) > 0 {
			recv.OnCPU = f.isCPU(c.Node.Args[0].Value)
			recv.OnGPU = !recv.OnCPU && f.isGPU(c.Node.Args[0].Value)
		}
		return recv
	case "double":
		recv.Double = true
		return recv
	case "requires_grad_":
		recv.Grad = true
		return recv
	case "max", "min", "topk", "sort", "median", "kthvalue", "mode":
		if len(c.Node.Args) == 0 {
			recv.Reduced = true
			return recv
		}
		indices := recv.detached()
		indices.Reduced = true
		return Value{Kind: Container, Roots: recv.Roots, From: recv.From, Items: []Value{recv, indices}}
	case "div", "div_", "true_divide":
		v := combine(recv, args)
		v.Divided = true
		return v
	}
	if noGraph[c.Method] {
		recv.Reduced = recv.Reduced || anyOf(c.Method, "argmax", "argmin", "eq", "ne", "gt", "lt", "ge", "le", "equal", "any", "all")
		return recv.detached()
	}
	v := combine(recv, args)
	v.Kind = recv.Kind
	if recv.Kind == Container || recv.Kind == Unknown {
		v.Kind = Tensor
	}
	if reductions[c.Method] && len(c.Node.Args) == 0 {
		v.Reduced = true
	} else if !reductions[c.Method] {
		v.Reduced = recv.Reduced
	}
	return v
}

func (f *follower) isCPU(x pysource.Expr) bool {
	if s, ok := x.(*pysource.String); ok {
		return s.Value == "cpu"
	}
	c, ok := x.(*pysource.Call)
	return ok && Last(f.m.Dotted(c.Func)) == "device" && len(c.Args) > 0 && f.isCPU(c.Args[0].Value)
}

// isGPU tells whether an expression names a GPU in so many words, or a device.
func (f *follower) isGPU(x pysource.Expr) bool {
	switch x := x.(type) {
	case *pysource.String:
		return strings.HasPrefix(x.Value, "cuda")
	case *pysource.Call:
		return Last(f.m.Dotted(x.Func)) == "device" && len(x.Args) > 0 && f.isGPU(x.Args[0].Value)
	}
	return strings.HasSuffix(strings.ToLower(Last(Key(x))), "device")
}
