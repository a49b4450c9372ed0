package repair

import (
	"slices"
	"strings"

	"github.com/plimsoll/plimsoll/internal/code/flow"
	"github.com/plimsoll/plimsoll/internal/code/lint"
	"github.com/plimsoll/plimsoll/internal/code/pysource"
)

// use is what the program does with a value that was kept, the mildest first.
type use uint8

const (
	asNumber       use = iota // added, printed, averaged: a Python number would do
	asTensor                  // methods of a tensor are called on it
	outOfSight                // handed to something that is not followed here
	differentiated            // back-propagated
)

// readsNumbers are functions that take numbers and zero-dimensional tensors alike and keep neither.
var readsNumbers = map[string]bool{
	"print": true, "len": true, "float": true, "int": true, "str": true, "round": true, "sum": true, "min": true, "max": true, "format": true,
	"numpy.mean": true, "numpy.sum": true, "numpy.average": true, "math.isnan": true, "math.exp": true, "statistics.mean": true,
	"logging.info": true, "logger.info": true, "tqdm.write": true, "wandb.log": true,
}

// ofContainers are methods of lists and dicts that do not look at what is inside.
var ofContainers = map[string]bool{"append": true, "extend": true, "clear": true, "insert": true, "get": true, "update": true}

// usesOf finds the strongest use of a name in the bodies where it is seen. A name that follows from it is followed a few steps.
func (s *site) usesOf(key string, steps int) use {
	body := s.f.Body
	switch {
	case strings.Contains(key, "."):
		return outOfSight // an attribute: other files may read it
	case s.scope != nil && s.scope.Func != nil:
		if body = s.scope.Func.Node.Body; !s.ownName(key) {
			return outOfSight // a list that was given, or one of the file: others read it
		}
	}
	worst := asNumber
	for _, st := range body {
		s.visit(st, nil, func(n pysource.Node, above []pysource.Node) {
			if e, ok := n.(pysource.Expr); ok && flow.Key(e) == key {
				worst = max(worst, s.useOf(e, above, steps))
			}
		})
	}
	return worst
}

// ownName tells whether a function makes what a name holds itself.
func (s *site) ownName(key string) bool {
	return !s.isParameter(key) && slices.ContainsFunc(s.scope.Binds, func(b *flow.Bind) bool {
		a, ok := b.Node.(*pysource.Assign)
		return b.Name == key && !(ok && a.Op != "")
	})
}

// visit walks a tree with the nodes above each node, the closest last.
func (s *site) visit(n pysource.Node, above []pysource.Node, do func(pysource.Node, []pysource.Node)) {
	do(n, above)
	pysource.Children(n, func(c pysource.Node) {
		if name, ok := c.(*pysource.Name); c != nil && (!ok || name != nil) {
			s.visit(c, append(above[:len(above):len(above)], n), do)
		}
	})
}

// useOf judges one place where a value is written.
func (s *site) useOf(e pysource.Expr, above []pysource.Node, steps int) use {
	for i := len(above) - 1; i >= 0; i-- {
		switch up := above[i].(type) {
		case *pysource.Attribute:
			switch {
			case ofContainers[up.Attr]:
				return asNumber
			case up.Attr == "backward" || strings.Contains(up.Attr, "grad"):
				return differentiated
			}
			return asTensor
		case *pysource.Call:
			if readsNumbers[s.m.Dotted(up.Func)] {
				if name := s.m.Dotted(up.Func); name != "sum" && name != "min" && name != "max" {
					return asNumber
				}
				e = up // the sum of tensors is a tensor
				continue
			}
			if f, ok := up.Func.(*pysource.Attribute); ok && (f.Attr == "set_postfix" || f.Attr == "format" || f.Attr == "add_scalar" || f.Attr == "info" || f.Attr == "debug") {
				return asNumber
			}
			return outOfSight
		case *pysource.String:
			return asNumber
		case *pysource.Binary, *pysource.Unary, *pysource.Compare, *pysource.Bool, *pysource.Conditional, *pysource.Subscript:
			e = up.(pysource.Expr)
			continue
		case *pysource.Assign:
			return s.assigned(up, e, steps)
		case *pysource.ExprStmt, *pysource.If, *pysource.While, *pysource.Assert, *pysource.Delete:
			return asNumber
		}
		return outOfSight
	}
	return outOfSight
}

// assigned follows a value into the name it is given.
func (s *site) assigned(a *pysource.Assign, from pysource.Expr, steps int) use {
	for _, t := range a.Targets {
		if t == from {
			return asNumber // it is written to, not read
		}
		if sub, ok := t.(*pysource.Subscript); ok && within(sub, from) {
			return asNumber
		}
	}
	if len(a.Targets) != 1 || steps == 0 {
		return outOfSight
	}
	key := flow.Key(a.Targets[0])
	if key == "" {
		return outOfSight
	}
	if within(a.Value, from) && names([]pysource.Stmt{a}, key) > 1 {
		return asNumber // total = total + x
	}
	return s.usesOf(key, steps-1)
}

func within(outer, inner pysource.Node) bool {
	a, b := outer.Pos(), inner.Pos()
	return a.Start <= b.Start && b.End <= a.End
}

// ofTensors are methods and attributes that lists, tuples, dicts and numbers do not have.
var ofTensors = map[string]bool{
	"detach": true, "cpu": true, "cuda": true, "argmax": true, "max": true, "softmax": true, "sigmoid": true, "log_softmax": true, "view": true, "reshape": true, "squeeze": true,
	"unsqueeze": true, "mean": true, "sum": true, "size": true, "shape": true, "float": true, "dim": true, "permute": true, "transpose": true, "contiguous": true, "topk": true,
	"device": true, "dtype": true, "data": true, "backward": true, "item": true, "requires_grad": true, "grad_fn": true, "numel": true, "exp": true, "clamp": true, "norm": true,
}

// tensor tells whether the source shows that an expression is one tensor: it is computed with, or somewhere in the same body something is done to it
// that can be done to tensors alone.
func (s *site) tensor(x pysource.Expr) bool {
	switch x := x.(type) {
	case *pysource.Binary, *pysource.Unary:
		return true
	case *pysource.Call:
		a, ok := x.Func.(*pysource.Attribute)
		return ok && ofTensors[a.Attr] || strings.HasPrefix(s.m.Dotted(x.Func), "torch.") || s.givesTensor(x)
	}
	if s.boundToTensor(flow.Key(x)) {
		return true
	}
	key, body := flow.Key(x), s.f.Body
	if s.scope != nil && s.scope.Func != nil {
		body = s.scope.Func.Node.Body
	}
	return key != "" && anyNode(body, func(n pysource.Node) bool {
		switch n := n.(type) {
		case *pysource.Attribute:
			return flow.Key(n.X) == key && ofTensors[n.Attr]
		case *pysource.Binary:
			return flow.Key(n.Left) == key || flow.Key(n.Right) == key
		case *pysource.Call:
			return len(n.Args) > 0 && flow.Key(n.Args[0].Value) == key && s.takesTensor(n)
		}
		return false
	})
}

// boundToTensor tells whether a name is given nothing but calls that give a tensor.
func (s *site) boundToTensor(key string) bool {
	if s.scope == nil || key == "" || s.isParameter(key) {
		return false
	}
	bound := 0
	for _, b := range s.scope.Binds {
		if b.Name != key {
			continue
		}
		a, ok := b.Node.(*pysource.Assign)
		c, call := b.Expr.(*pysource.Call)
		if !ok || !call || len(a.Targets) != 1 || flow.Key(a.Targets[0]) != key || !s.tensor(c) {
			return false
		}
		bound++
	}
	return bound > 0
}

// givesTensor tells whether a call runs a loss, or a model that is known to give one tensor: a layer of PyTorch other than those that give a state as well, or
// a forward of the project that was followed.
func (s *site) givesTensor(x *pysource.Call) bool {
	c := s.known.calls[x.Pos()]
	if c != nil && c.Callee.Kind == flow.Criterion && len(c.Result.Items) == 0 {
		return true
	}
	if c == nil || c.Callee.Kind != flow.Model {
		return false
	}
	if layer, ok := strings.CutPrefix(c.Callee.Class, "torch.nn."); ok {
		return layer == "Linear" || layer == "Sequential" || strings.HasPrefix(layer, "Conv") || strings.HasPrefix(layer, "Embedding") || strings.HasSuffix(layer, "Norm")
	}
	facts := c.Scope.Forward(c)
	return facts != nil && facts.Return.Kind == flow.Tensor && len(facts.Return.Items) == 0
}

// takesTensor tells whether the first argument of a call is a tensor: of a function of PyTorch, or of a loss.
func (s *site) takesTensor(c *pysource.Call) bool {
	name := s.m.Dotted(c.Func)
	if a, ok := c.Func.(*pysource.Attribute); ok && (a.Attr == "backward" || a.Attr == "scale") { // accelerator.backward(loss), scaler.scale(loss)
		return true
	}
	return lossFunction(name) || strings.HasPrefix(name, "torch.") && !strings.HasPrefix(name, "torch.save") || strings.HasPrefix(flow.Last(flow.Key(c.Func)), "crit")
}

// lossFunctions of torch.nn.functional give a scalar unless they are told otherwise
// (https://github.com/pytorch/pytorch/blob/v2.11.0/torch/nn/functional.py: reduction: str = "mean").
func lossFunction(dotted string) bool {
	name, ok := strings.CutPrefix(dotted, "torch.nn.functional.")
	return ok && (strings.HasSuffix(name, "_loss") || name == "cross_entropy" || strings.HasPrefix(name, "binary_cross_entropy") || name == "kl_div")
}

// reduces tells whether a loss, by its arguments, gives one number.
func reduces(c *pysource.Call) bool {
	for _, a := range c.Args {
		if a.Star > 0 || a.Name == "reduce" || a.Name == "size_average" {
			return false
		}
		if text, ok := a.Value.(*pysource.String); a.Name == "reduction" && (!ok || text.Value != "mean" && text.Value != "sum" && text.Value != "batchmean") {
			return false
		}
	}
	return true
}

// scalar tells whether an expression is known to be a tensor of one number, so that item() works on it. Only what the source proves counts:
// a name like "loss" does not.
func (s *site) scalar(x pysource.Expr, steps int) bool {
	if s.scope == nil || steps == 0 {
		return false
	}
	switch x := x.(type) {
	case *pysource.Binary:
		return s.scalar(x.Left, steps-1) && s.scalarOrNumber(x.Right, steps-1) || s.scalarOrNumber(x.Left, steps-1) && s.scalar(x.Right, steps-1)
	case *pysource.Call:
		return s.scalarCall(x)
	case *pysource.Name, *pysource.Attribute:
		return s.scalarName(flow.Key(x), steps)
	}
	return false
}

func (s *site) scalarOrNumber(x pysource.Expr, steps int) bool {
	if _, ok := x.(*pysource.Number); ok {
		return true
	}
	return s.scalar(x, steps)
}

func (s *site) scalarCall(c *pysource.Call) bool {
	name := s.m.Dotted(c.Func)
	if lossFunction(name) {
		return reduces(c)
	}
	if name == "torch.mean" || name == "torch.sum" {
		return len(c.Args) == 1 && c.Args[0].Star == 0
	}
	if f, ok := c.Func.(*pysource.Attribute); ok && (f.Attr == "mean" || f.Attr == "sum") {
		return len(c.Args) == 0
	}
	key := flow.Key(c.Func)
	if key == "" {
		return false
	}
	made := 0
	for _, scope := range s.m.Scopes {
		for _, b := range scope.Binds {
			if b.Name != key {
				continue
			}
			call, ok := b.Expr.(*pysource.Call)
			if !ok {
				return false
			}
			dotted := s.m.Dotted(call.Func)
			if !strings.HasPrefix(dotted, "torch.nn.") || !strings.HasSuffix(dotted, "Loss") || !reduces(call) {
				return false
			}
			made++
		}
	}
	return made > 0 && !s.isParameter(key)
}

func (s *site) isParameter(key string) bool {
	for fn := s.scope.Func; fn != nil; fn = fn.Outer {
		for _, p := range fn.Node.Params {
			if p.Name == key {
				return true
			}
		}
	}
	return false
}

// scalarName tells it of a name: backward() without a gradient is possible on a scalar alone
// (https://github.com/pytorch/pytorch/blob/v2.11.0/torch/autograd/__init__.py: "grad can be implicitly created only for scalar outputs").
func (s *site) scalarName(key string, steps int) bool {
	for _, c := range s.scope.Calls {
		if c.Method == "backward" && c.Recv != nil && flow.Key(c.Recv) == key && keyword(c.Node, "gradient") == nil && (len(c.Node.Args) == 0 || c.Node.Args[0].Name != "") {
			return true
		}
	}
	bound := 0
	for _, b := range s.scope.Binds {
		if b.Name != key {
			continue
		}
		if a, ok := b.Node.(*pysource.Assign); !ok || b.Expr == nil || a.Value != b.Expr || a.Op != "" || len(a.Targets) != 1 || flow.Key(a.Targets[0]) != key || !s.scalar(b.Expr, steps-1) {
			return false
		}
		bound++
	}
	return bound > 0 && !s.isParameter(key)
}

// sometimesNumber tells whether a name is given a plain number on some way to where it is used: a number has neither item() nor detach().
func (s *site) sometimesNumber(x pysource.Expr) bool {
	key, found := flow.Key(x), false
	if key == "" || s.scope == nil {
		return false
	}
	for _, b := range s.scope.Binds {
		if b.Name != key || b.Expr == nil {
			continue
		}
		if a, ok := b.Node.(*pysource.Assign); ok && a.Op != "" {
			continue
		}
		plain := b.Value.Kind == flow.Scalar
		if _, number := b.Expr.(*pysource.Number); number {
			plain = true
		}
		found = found || plain && !s.replacedFirst(b)
	}
	return found
}

// replacedFirst tells whether something in the block of a binding gives the name another value before the place is reached, whatever branches are taken.
func (s *site) replacedFirst(b *flow.Bind) bool {
	at := s.found.Span.Start
	return slices.ContainsFunc(s.scope.Binds, func(o *flow.Bind) bool {
		return o != b && o.Name == b.Name && o.Order > b.Order && o.Node.Pos().Start < at && o.Value.Kind != flow.Scalar && len(o.Ctx.Branches(nil)) <= len(b.Ctx.Branches(nil)) && o.Ctx.InnermostLoop() == s.loop()
	})
}

// loop is the closest loop around the place.
func (s *site) loop() *flow.Loop {
	switch {
	case s.store != nil:
		return s.store.Ctx.InnermostLoop()
	case s.call != nil:
		return s.call.Ctx.InnermostLoop()
	}
	return nil
}

// declaredOutside tells whether a function says that a name is not its own: others may use it in any way.
func (s *site) declaredOutside(name string) bool {
	return s.scope != nil && s.scope.Func != nil && anyNode(s.scope.Func.Node.Body, func(n pysource.Node) bool {
		w, ok := n.(*pysource.Word)
		return ok && slices.Contains(w.Names, name)
	})
}

// beforeItem tells whether a file is written for a PyTorch before 0.4, which has neither no_grad nor item() nor a map_location that is a name
// (https://github.com/pytorch/pytorch/releases/tag/v0.4.0).
func (s *site) beforeItem() bool { return lint.Old(s.f.Source) }
