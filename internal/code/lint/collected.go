package lint

import (
	"slices"
	"strings"

	"github.com/plimsoll/plimsoll/internal/code/flow"
	"github.com/plimsoll/plimsoll/internal/code/pysource"
)

// outputsCollected is LM002.
func outputsCollected(p *pass) {
	if !p.usesGPU() {
		return
	}
	for _, s := range p.m.Scopes {
		for _, st := range s.Stores {
			v := st.Value
			onGPU := v.Kind == flow.Tensor || v.IsTensor() && v.OnGPU && st.Ctx.NoGrad == flow.Off
			if !onGPU || v.HasGraph() || v.OnCPU || v.Reduced || st.Kind == flow.Accumulate || st.Kind == flow.Average || inModule(s) && !overLoader(st.Ctx) {
				continue
			}
			p.outputStore(s, st)
		}
	}
}

// arrays tells whether what is collected is an array of NumPy: in one of the branches that lead there, or since NumPy takes the collection, which it cannot
// where its tensors are on a GPU.
func (p *pass) arrays(s *flow.Scope, st *flow.Store) bool {
	key := flow.Key(st.Expr)
	return key != "" && slices.ContainsFunc(s.Binds, func(b *flow.Bind) bool {
		made, ok := b.Expr.(*pysource.Call)
		return ok && b.Name == key && strings.HasPrefix(p.m.Dotted(made.Func), "numpy.")
	}) || slices.ContainsFunc(s.Calls, func(c *flow.Call) bool {
		return c.Order > st.Order && !reboundBefore(s, st, c.Order) && strings.HasPrefix(c.Name, "numpy.") && slices.ContainsFunc(c.Node.Args, func(a pysource.Arg) bool { return flow.Key(a.Value) == st.Base })
	})
}

// reboundBefore tells whether a collection is given something else between a store and a place.
func reboundBefore(s *flow.Scope, st *flow.Store, until int) bool {
	return slices.ContainsFunc(s.Binds, func(b *flow.Bind) bool { return b.Name == st.Base && b.Order > st.Order && b.Order < until })
}

func (p *pass) outputStore(s *flow.Scope, st *flow.Store) {
	loop := p.dataLoop(s, st)
	if loop == nil || overwritten(st, loop) || rebound(s, st.Base, loop) || st.Via != "" || nowAndThen(st, loop) || intoBuffer(st) || loop.Kind == flow.OtherLoop && perBatch(s, st.Base, loop) {
		return
	}
	if p.arrays(s, st) {
		return
	}
	severity, fix := Warning, "move each result as you collect it: `"+p.on(st.Expr, ".cpu()")+"` (of a tuple or a dict, each tensor in it); what is computed from the results is then on the CPU too (with the Hugging Face Trainer: eval_accumulation_steps, or preprocess_logits_for_metrics)"
	if st.Kind == flow.Concat || loop.Kind == flow.OtherLoop || stops(loop) || selected(st.Expr) || small(flow.Key(st.Expr)) || small(st.Base) || p.meetsGPU(s, st, loop) || p.halfOnCPU(s, st) {
		severity = Note
		fix = "if memory runs out here, move each result with .cpu() as you collect it, and bring what is computed from them back to the GPU where it meets tensors there"
	}
	if st.Kind == flow.Concat { // what it is joined with stays where it is
		fix = "if memory runs out here, collect `" + p.on(st.Expr, ".cpu()") + "` in a list and join it once after the loop"
	}
	p.report(st.Node, severity,
		"`"+st.Base+"` collects `"+p.text(st.Expr)+"` of every batch where the model is: on a GPU, memory grows with the size of the dataset, even without gradients", fix)
	p.explains(loop)
}

// small tells whether the name of what is collected, or of where it goes, promises a few numbers for each sample.
func small(name string) bool {
	return slices.ContainsFunc(tokens(flow.Last(name)), func(t string) bool {
		return oneOf(t, "score", "scores", "psnr", "ssim", "acc", "accuracy", "metric", "loss", "losses", "iou", "proba", "prob", "probs", "conf", "confidence", "dist", "distance", "similarity", "error", "label", "labels", "target", "targets")
	})
}

// selected tells whether an expression takes some elements out of something: how much that is, nobody knows.
func selected(x pysource.Expr) bool {
	part, ok := x.(*pysource.Subscript)
	if !ok {
		return false
	}
	_, mask := part.Index.(*pysource.Compare)
	return mask
}

// meetsGPU tells whether what was collected may be combined with something that stays on the GPU, so that on the CPU it would raise "Expected all
// tensors to be on the same device": it leaves the body, goes into a function that is not known, or into an operation with anything but numbers.
func (p *pass) meetsGPU(s *flow.Scope, st *flow.Store, loop *flow.Loop) bool {
	if strings.Contains(st.Base, ".") || // an attribute: other code may read it
		s.Func != nil && hasParam(s.Func.Node, st.Base) {
		return true
	}
	names, until := onGPU(s, st)
	for _, r := range s.Returns {
		if r.X != nil && r.Order < until && mentionsAny(r.X, names) && !words(r.X, toHost) {
			return true
		}
	}
	for _, c := range s.Calls {
		if c.Node != st.Node && c.Order < until && !c.Ctx.Inside(loop) && mentionsAny(c.Node, names) && !staysAlone(c, names) {
			return true
		}
	}
	return p.combined(s, names, st, until)
}

// halfOnCPU tells whether something is computed from results that may be half precision: before PyTorch 2.1 the CPU has no softmax or mean of that type
// (https://github.com/pytorch/pytorch/blob/v2.0.0/aten/src/ATen/native/cpu/SoftMaxKernel.cpp).
func (p *pass) halfOnCPU(s *flow.Scope, st *flow.Store) bool {
	if !p.sourceHas("half()", "float16", "fp16", "autocast") {
		return false
	}
	names, until := onGPU(s, st)
	return slices.ContainsFunc(s.Calls, func(c *flow.Call) bool {
		return c.Order > st.Order && c.Order < until && mentionsAny(c.Node, names) && (oneOf(c.Method, "mean", "sum", "std", "var", "softmax", "sigmoid", "argmax", "norm", "matmul", "log", "exp"))
	})
}

// onGPU lists the names under which collected results are used while they may be on the GPU, and the place from which the collection itself is on
// the CPU.
func onGPU(s *flow.Scope, st *flow.Store) (names []string, until int) {
	names, until = []string{st.Base}, 1<<30
	for _, b := range s.Binds {
		if b.Expr == nil || b.Order <= st.Order || b.Node == st.Node || !mentionsAny(b.Expr, names) {
			continue
		}
		switch host := words(b.Expr, toHost); {
		case b.Name == st.Base && host:
			return names, b.Order
		case !host && len(names) < maxDerived:
			names = append(names, b.Name)
		}
	}
	return names, until
}

// toHost are the methods that take a tensor off the GPU.
func toHost(w string) bool { return oneOf(w, "cpu", "numpy", "item", "tolist") }

// staysAlone tells whether a call takes collected results alone, or takes them off the GPU anyway.
func staysAlone(c *flow.Call, names []string) bool {
	switch {
	case oneOf(c.Name, "torch.cat", "torch.stack", "torch.concat", "torch.vstack", "torch.hstack", "torch.save", "torch.mean", "torch.softmax", "torch.sigmoid", "torch.argmax", "torch.nn.functional.softmax"):
	case oneOf(c.Name, "print", "len", "float", "int", "str", "list", "enumerate", "numpy.concatenate", "numpy.array", "numpy.mean", "numpy.save", "numpy.vstack", "numpy.stack"):
	case c.Recv != nil && mentionsAny(c.Recv, names) && (toHost(c.Method) || oneOf(c.Method, "mean", "sum", "std", "var", "size", "view", "reshape", "squeeze", "float", "detach", "argmax", "softmax", "sigmoid", "append", "extend", "to", "dim", "cuda")):
	default:
		return false
	}
	return true
}

// combined tells whether results stand in an operation with something that is neither a number nor a result.
func (p *pass) combined(s *flow.Scope, names []string, st *flow.Store, until int) bool {
	found, end := false, pysource.Span{End: 1 << 30}.End
	for _, b := range s.Binds {
		if b.Order == until {
			end = b.Node.Pos().Start
		}
	}
	pysource.WalkBody(s.Body, func(n pysource.Node) bool {
		if at := n.Pos().Start; found || at < st.Node.Pos().Start || at >= end {
			return !found
		}
		switch n := n.(type) {
		case *pysource.Binary:
			found = meets(n.Left, n.Right, names) || meets(n.Right, n.Left, names)
		case *pysource.Compare:
			for i := 1; i < len(n.Values); i++ {
				found = found || meets(n.Values[i-1], n.Values[i], names) || meets(n.Values[i], n.Values[i-1], names)
			}
		case *pysource.For: // each result by itself
			found = mentionsAny(n.Iter, names)
		case *pysource.Comprehension:
			for _, c := range n.Clauses {
				found = found || c.Iter != nil && mentionsAny(c.Iter, names)
			}
		}
		return !found
	})
	return found
}

// meets tells whether a result stands beside something that is neither a number nor a result.
func meets(x, other pysource.Expr, names []string) bool {
	_, number := other.(*pysource.Number)
	return !number && mentionsAny(x, names) && !words(x, toHost) && !mentionsAny(other, names) && !words(other, func(w string) bool { return oneOf(w, "len", "item") })
}

// nowAndThen tells whether only one iteration in many comes to the store: if step % 100 == 0.
func nowAndThen(st *flow.Store, loop *flow.Loop) bool {
	for _, b := range st.Ctx.Branches(loop) {
		found := false
		pysource.Walk(b.Test, func(n pysource.Node) bool {
			op, ok := n.(*pysource.Binary)
			found = found || ok && op.Op == "%"
			return !found
		})
		if found && !b.Else {
			return true
		}
	}
	return false
}

// dataLoop finds the loop around a store that runs over data: a loader, or something whose elements go through a model.
func (p *pass) dataLoop(s *flow.Scope, st *flow.Store) *flow.Loop {
	for l := st.Ctx.InnermostLoop(); l != nil; l = l.Parent {
		if l.Kind == flow.LoaderLoop || l.Kind == flow.OtherLoop && p.overData(l) && p.fedByTarget(s, l) {
			return l
		}
		if l.Kind != flow.OtherLoop {
			return nil
		}
	}
	return nil
}

// overData tells whether a loop runs over what may be large: what a call gives, or something named like data. A list of codes is short.
func (p *pass) overData(l *flow.Loop) bool {
	short := strings.ToLower(flow.Last(flow.Key(l.Iter)))
	if c, ok := l.Iter.(*pysource.Call); ok && flow.Key(c.Func) == "enumerate" && len(c.Args) > 0 {
		short = strings.ToLower(flow.Last(flow.Key(c.Args[0].Value)))
	}
	return !strings.HasSuffix(short, "_list")
}

// fedByTarget tells whether a model call in the loop gets the loop's variable, so that the loop runs over data.
func (p *pass) fedByTarget(s *flow.Scope, l *flow.Loop) bool {
	var fed []string
	for _, t := range l.Targets {
		fed = append(fed, p.derivedFrom(s, t)...)
	}
	for _, c := range s.Calls {
		if c.Callee.Kind != flow.Model || !c.Ctx.Inside(l) {
			continue
		}
		for _, a := range c.Node.Args {
			if mentionsAny(a.Value, fed) {
				return true
			}
		}
	}
	return false
}

// stops tells whether the loop has a break of its own.
func stops(l *flow.Loop) bool {
	found := false
	pysource.WalkBody(l.Body, func(n pysource.Node) bool {
		switch n := n.(type) {
		case *pysource.For, *pysource.While, *pysource.Function:
			return false
		case *pysource.Word:
			found = found || n.Keyword == "break"
		}
		return true
	})
	return found
}
