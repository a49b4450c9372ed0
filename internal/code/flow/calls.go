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
			return fn.Class.Methods[name] != nil
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
		base := c.Recv
		if sub, ok := base.(*pysource.Subscript); ok {
			base = sub.X
		}
		key := Key(base)
		if key == "" || c.Method == "add" && c.RecvValue.IsTensor() {
			return
		}
		last := len(c.Args) - 1
		f.store(&Store{Kind: Append, Node: c.Node, Base: key, Target: c.Recv, Value: c.Args[last], Expr: c.Node.Args[last].Value})
		f.keep(key, c.Args[last])
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

// result is what a call gives back.
func (f *follower) result(c *Call) Value {
	all := combine(c.Args...)
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
		v.Roots = union(v.Roots, a.Roots)
	}
	if f.ctx.NoGrad != Off {
		v.Roots = union(v.Roots, []int{f.newRoot()})
	}
	return v
}

func (f *follower) newRoot() int { f.m.roots++; return f.m.roots }

// ownCall is a call of a function or class of this file or of a neighbour.
func (f *follower) ownCall(c *Call) (Value, bool) {
	if name, ok := c.Node.Func.(*pysource.Name); ok {
		if cl := f.m.Classes[name.ID]; cl != nil {
			return instance(ClassFacts{cl.Module, cl.Dataset, cl.Lightning}, cl.Name), true
		}
	}
	if fn := f.m.callee(f.s.Func, c); fn != nil {
		f.m.analyze(fn)
		return f.given(fn.Return, fn.NoGrad), fn.state == done
	}
	if facts, ok := f.m.neighbour(c.Name); ok {
		return f.given(facts.Return, facts.NoGrad), true
	}
	if i := strings.LastIndexByte(c.Name, '.'); i > 0 {
		if e := f.m.lookup(c.Name[:i]); e != nil {
			if facts, ok := e.Classes[c.Name[i+1:]]; ok {
				return instance(facts, ""), true
			}
		}
	}
	return Value{}, false
}

func instance(facts ClassFacts, name string) Value {
	switch {
	case facts.Module:
		return Value{Kind: Model, Class: name}
	case facts.Dataset:
		return Value{Kind: Dataset, Class: name}
	}
	return Value{}
}

// given is a function's result as its caller sees it: a graph inside becomes one root here.
func (f *follower) given(v Value, noGrad bool) Value {
	off := noGrad || f.ctx.NoGrad == Off
	var fresh []int
	if v.HasGraph() && !off {
		fresh = []int{f.newRoot()}
	}
	return reroot(v, fresh)
}

func reroot(v Value, roots []int) Value {
	items := v.Items
	if v.HasGraph() {
		v.Roots = roots
	}
	v.Items = nil
	for _, item := range items {
		v.Items = append(v.Items, reroot(item, roots))
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
			v := recv
			v.Items = nil
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
	if recv.Kind == Unknown {
		// Without knowing the tensor, what detaches still detaches.
		switch c.Method {
		case "item", "tolist", "numpy":
			return scalar(), true
		}
	}
	return Value{}, false
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
	case "generate", "predict":
		return Value{Kind: Tensor}, true
	}
	if strings.HasPrefix(c.Method, "forward_") || strings.HasPrefix(c.Method, "encode") && !v.Guess || c.Method == "module" || c.Method == "compute_loss" {
		return f.modelCall(c), true
	}
	return Value{}, true
}

// helperMethod is a call on an Accelerator or Fabric: prepare and setup give back what they got.
func helperMethod(c *Call) (Value, bool) {
	switch c.Method {
	case "prepare", "setup", "setup_dataloaders", "prepare_model", "prepare_data_loader":
		if len(c.Args) == 1 {
			return c.Args[0], true
		}
		return Value{Kind: Container, Items: c.Args}, true
	case "gather", "gather_for_metrics", "reduce", "pad_across_processes":
		return combine(c.Args...), true
	case "unwrap_model":
		return combine(c.Args...), true
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
		recv.OnCPU, recv.Items = true, nil
		return recv
	case "cuda":
		recv.OnCPU = false
		return recv
	case "to":
		recv.Items = nil
		if len(c.Node.Args) > 0 {
			recv.OnCPU = f.isCPU(c.Node.Args[0].Value)
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
		return Value{Kind: Container, Roots: recv.Roots, Items: []Value{recv, indices}}
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
