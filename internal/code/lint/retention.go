package lint

import (
	"slices"
	"strings"

	"github.com/plimsoll/plimsoll/internal/code/flow"
	"github.com/plimsoll/plimsoll/internal/code/pysource"
)

// Facts behind this file (PyTorch's autograd, the same from 1.13 to 2.11): a tensor with a grad_fn keeps its graph, the graph
// keeps what the operators saved for backward, and backward frees that unless retain_graph or create_graph is set. Kept
// per iteration of an MLP 1000-2000-1000-10 at batch 1024: 0 bytes of tensors where the loss is stored after its backward,
// 11.76 MiB where there is no backward.

// graphRetained is LM001.
func graphRetained(p *pass) {
	for _, s := range p.m.Scopes {
		if s.Func.Quiet() {
			continue
		}
		backs := p.backwards(s)
		for _, st := range s.Stores {
			switch {
			case st.Kind == flow.Average && st.Via == "" && strings.HasPrefix(st.Base, "self."):
				p.runningAverage(s, st)
			case st.Value.HasGraph() && (!inModule(s) || overLoader(st.Ctx)):
				p.graphStore(s, st, backs)
			}
		}
	}
}

// overLoader tells whether a place stands in a loop over a loader.
func overLoader(ctx *flow.Context) bool {
	return ctx.Within(func(x *flow.Context) bool { return x.Loop != nil && x.Loop.Kind == flow.LoaderLoop })
}

// runningAverage finds "self.mean = m * self.mean + (1 - m) * batch_mean" where nothing cuts the graph: each call hangs its graph
// on the one before.
func (p *pass) runningAverage(s *flow.Scope, st *flow.Store) {
	// What another class is given to average may well be a number: its callers know, and are looked at.
	if st.Ctx.NoGrad != flow.Recording || !st.Value.HasGraph() && !(inModule(s) && st.Value.From != 0) {
		return
	}
	if p.partOfForward(s, st) {
		return
	}
	what := p.text(st.Expr)
	p.report(st.Node, Warning,
		"`"+st.Base+"` is averaged with its graph: each call links the graphs of all earlier ones to it, so memory grows with every batch, or backward fails the second time",
		"average the values alone: `"+what+"` with .detach(), or the whole line under torch.no_grad()")
	p.within(s)
}

// partOfForward tells whether an average is more than statistics: the function sets it anew or computes with it afterwards, or another method starts it
// afresh. The potential of a spiking neuron and the state of a recurrent cell carry their graph through time on purpose.
func (p *pass) partOfForward(s *flow.Scope, st *flow.Store) bool {
	later := func(x pysource.Node, order int, ctx *flow.Context) bool {
		return order > st.Order && mentions(x, st.Base) && (ctx == nil || !exclude(ctx, st.Ctx))
	}
	for _, b := range s.Binds {
		if b.Name == st.Base && b.Node != st.Node || b.Expr != nil && b.Node != st.Node && later(b.Expr, b.Order, b.Ctx) {
			return true
		}
	}
	if slices.ContainsFunc(s.Calls, func(c *flow.Call) bool { return !around(st.Node, c.Node) && later(c.Node, c.Order, c.Ctx) }) ||
		slices.ContainsFunc(s.Returns, func(r *flow.Exit) bool { return r.X != nil && later(r.X, r.Order, nil) }) {
		return true
	}
	if s.Func == nil || s.Func.Class == nil {
		return false
	}
	for name, fn := range s.Func.Class.Methods {
		if name != "__init__" && fn != s.Func && fn.Scope != nil && slices.ContainsFunc(fn.Scope.Binds, func(b *flow.Bind) bool { return b.Name == st.Base }) {
			return true
		}
	}
	return false
}

func (p *pass) graphStore(s *flow.Scope, st *flow.Store, backs []backward) {
	loop := st.Ctx.InnermostLoop()
	inObject := st.Via != "" && strings.Count(st.Base, ".") > 1 && strings.HasPrefix(st.Base, "self.")
	if loop == nil {
		if inObject && (st.Kind == flow.Accumulate || st.Kind == flow.Append || st.Kind == flow.Average) {
			p.keptByObject(s, st, backs)
		}
		p.keptByStep(s, st)
		return
	}
	always, sometimes := reset(s, st.Base, loop)
	if overwritten(st, loop) || always || isTarget(st.Base, loop) || intoBuffer(st) || perBatch(s, st.Base, loop) || trainedLater(s, st, loop) || cutAfter(s, st, loop) || !loop.Makes(st.Value) {
		return
	}
	freed, partly := st.Value.Freed, false
	for _, b := range backs {
		if b.call.Node != st.Node && b.call.Order > st.Order && mentions(b.call.Node, st.Base) {
			return // the sum itself is back-propagated, on this path or another
		}
		if !b.value.Shares(st.Value) {
			continue
		}
		if !b.call.Ctx.Inside(loop) {
			return // kept on purpose: a later backward needs the whole graph
		}
		if !b.retain && !b.create {
			freed = freed || p.ancestor(s, st, b, maxFilled)
			partly = true
		}
	}
	what := p.text(st.Expr)
	if st.Value.Guess && !lossName(st.Expr) && (freed || !usedAsTensor(s, st.Expr)) {
		return // nothing says that it is a tensor at all
	}
	if !freed && p.mayTrainOn(s, st, partly) {
		return
	}
	if freed {
		p.report(st.Node, Note,
			"`"+what+"` is kept as a tensor; its activations are gone after backward, but each one still holds its graph's bookkeeping in host memory",
			"keep `"+p.on(st.Expr, ".detach()")+"`, or `.item()` where it is a single number and nothing calls a tensor's methods on it later (it waits for the GPU)")
		p.within(s)
		return
	}
	if partly {
		fix := "keep `" + p.on(st.Expr, ".detach()") + "`, or `.item()` where it is a single number and nothing calls a tensor's methods on it later"
		if st.Value.Kind == flow.Container {
			fix = "keep it without graphs: `.detach()` on each tensor in it"
		}
		p.report(st.Node, Note, // how much that is depends on the operations: a sum of losses saves nothing, a product with a mask does
			"`"+what+"` is kept with its graph: backward freed the model's activations, but not what the operations behind this value may have saved, and that stays for every batch", fix)
		p.byHand()
		p.within(s)
		p.explains(loop)
		return
	}
	if !inObject && p.escapes(s, st) || loop.Kind != flow.LoaderLoop && (joined(s, st) || s.Func != nil && strings.HasPrefix(s.Func.Name, "forward")) {
		return
	}
	severity := Error
	switch {
	case st.Value.Guess || loop.Kind != flow.LoaderLoop && !evaluates(s) || p.differentiatesElsewhere(): // only a name says that it is a tensor with a graph; the loop is over the steps of a sequence; gradients may be taken out of sight
		severity = Note
	case st.Ctx.NoGrad == flow.Maybe || sometimes || loop.Kind != flow.LoaderLoop || st.Via != "" || Old(p.m.File.Source):
		severity = Warning // the loop may be short, or record nothing on an old PyTorch
	}
	p.report(st.Node, severity,
		"`"+what+"` keeps its autograd graph, and no backward frees it in this loop: `"+st.Base+"` holds every iteration's activations at once, so memory grows with each batch",
		p.storeInstead(st))
	if severity == Note {
		p.byHand()
	}
	p.within(s)
	p.needs(SwitchesOff)
	p.explains(loop)
}

// evaluates tells whether a body evaluates a model: by its name, or because it switches one to eval mode.
func evaluates(s *flow.Scope) bool {
	return s.Func != nil && evaluationName(s.Func.Name) || slices.ContainsFunc(s.Calls, func(c *flow.Call) bool {
		return c.Method == "eval" && c.RecvValue.Kind == flow.Model && len(c.Node.Args) == 0
	})
}

// lossName tells whether an expression names a loss.
func lossName(x pysource.Expr) bool {
	return words(x, func(w string) bool { return strings.Contains(strings.ToLower(w), "loss") })
}

// cutAfter tells whether the loop takes the graph off again after it was added: k = k.data[0], total = total.detach().
func cutAfter(s *flow.Scope, st *flow.Store, loop *flow.Loop) bool {
	return slices.ContainsFunc(s.Binds, func(b *flow.Bind) bool {
		return b.Name == st.Base && b.Node != st.Node && b.Order > st.Order && b.Ctx.Inside(loop) && len(b.Ctx.Branches(loop)) == 0 && b.Expr != nil && !b.Value.HasGraph() && mentions(b.Expr, st.Base)
	})
}

// storeInstead says what to keep: of a dict, list or tuple, the numbers in it.
func (p *pass) storeInstead(st *flow.Store) string {
	_, several := st.Expr.(*pysource.Sequence)
	if several || st.Value.Kind == flow.Container {
		return "store `" + p.text(st.Expr) + "` without graphs: `.detach()` on each tensor in it, or `.item()` where a number is all that is needed"
	}
	if !st.Value.Reduced && st.Kind != flow.Accumulate {
		return "store `" + p.on(st.Expr, ".detach()") + "` (of a tuple or a dict, each tensor in it), with .cpu() where it is large and nothing on the GPU is computed from it"
	}
	return "store `" + p.on(st.Expr, ".detach()") + "`, or `.item()` where it is a single number and nothing calls a tensor's methods on the sum (it waits for the GPU); if the sum is for training, call backward() on each batch instead"
}

// keptByObject is a value that goes into a meter or a log that self holds, in a method that is called once for each batch.
func (p *pass) keptByObject(s *flow.Scope, st *flow.Store, backs []backward) {
	freed := st.Value.Freed
	for _, b := range backs {
		freed = freed || b.value.Shares(st.Value) && !b.retain && !b.create && b.call.Order < st.Order
	}
	what := p.text(st.Expr)
	if st.Value.Guess && !lossName(st.Expr) && (freed || !usedAsTensor(s, st.Expr)) {
		return
	}
	if freed {
		p.report(st.Node, Note,
			"`"+st.Via+"` adds up `"+what+"` as a tensor: its activations are gone after backward, but what it is added to stays on the GPU and holds the bookkeeping of every batch's graph",
			"pass `"+p.on(st.Expr, ".detach()")+"`, or `.item()` where nothing calls a tensor's methods on what is added up (it waits for the GPU)")
	} else {
		severity := Warning
		if st.Value.Guess {
			severity = Note
		}
		p.report(st.Node, severity,
			"`"+st.Via+"` adds up `"+what+"` with its autograd graph: unless a backward frees it afterwards, every batch's activations stay",
			"pass `"+p.on(st.Expr, ".detach()")+"`, or `.item()` where nothing calls a tensor's methods on what is added up (it waits for the GPU)")
	}
	p.within(s)
}

// keptByStep is a loss that a LightningModule's training_step adds to something of its own: Lightning runs the backward afterwards, which frees
// the activations, not the tensors.
func (p *pass) keptByStep(s *flow.Scope, st *flow.Store) {
	fn := s.Func
	if fn == nil || fn.Class == nil || !fn.Class.Lightning || fn.Name != "training_step" || st.Via != "" || st.Kind != flow.Append && st.Kind != flow.Accumulate || !strings.HasPrefix(st.Base, "self.") || st.Value.Freed {
		return
	}
	p.report(st.Node, Note,
		"`"+p.text(st.Expr)+"` is kept as a tensor for every batch; Lightning's backward frees its activations, but it stays on the GPU and holds its graph's bookkeeping in host memory",
		"keep `"+p.on(st.Expr, ".detach()")+"`, and empty `"+st.Base+"` at the end of the epoch")
}

// trainedLater tells whether the object that keeps the value back-propagates after the loop, in a method of its own: a policy that is given
// the steps of an episode and then trains on them.
func trainedLater(s *flow.Scope, st *flow.Store, loop *flow.Loop) bool {
	owner := st.Base[:max(0, strings.LastIndexByte(st.Base, '.'))]
	for _, c := range s.Calls {
		if owner != "" && c.Order > st.Order && c.Recv != nil && flow.Key(c.Recv) == owner && !c.Ctx.Inside(loop) && s.CallReaches(c, "backward") {
			return true
		}
	}
	return false
}

// perBatch tells whether what is filled here starts afresh in a loop further out, and this loop is no loop over data: the parts
// of one batch.
func perBatch(s *flow.Scope, base string, loop *flow.Loop) bool {
	if loop.Kind == flow.LoaderLoop {
		return false
	}
	for outer := loop.Parent; outer != nil; outer = outer.Parent {
		if outer.Kind == flow.EpochLoop {
			return false
		}
		if rebound(s, base, outer) {
			return true
		}
	}
	return false
}

// maxFilled bounds how far back sums of sums are followed.
const maxFilled = 3

// ancestor tells whether a backward runs over all of what is stored: the stored names go into what it starts from, or hold nothing but what does.
func (p *pass) ancestor(s *flow.Scope, st *flow.Store, b backward, depth int) bool {
	start := pysource.Node(b.call.Recv)
	if b.call.Recv == nil || !b.call.RecvValue.HasGraph() {
		start = b.call.Node
	}
	found, all := false, true
	pysource.Walk(st.Expr, func(n pysource.Node) bool {
		x, ok := n.(pysource.Expr)
		if !ok {
			return true
		}
		key := flow.Key(x)
		if key == "" {
			return true
		}
		for ; key != ""; key = key[:max(0, strings.LastIndexByte(key, '.'))] { // output.loss, then output
			if s.Holds(key).HasGraph() {
				found = true
				all = all && (mentionsAny(start, p.derivedFrom(s, key)) || p.filledBy(s, st, key, b, depth))
				break
			}
		}
		return false
	})
	return found && all || !found && b.call.Order < st.Order
}

// filledBy tells whether all that is added to a list or a sum is what a backward runs over.
func (p *pass) filledBy(s *flow.Scope, st *flow.Store, key string, b backward, depth int) bool {
	any := false
	for _, o := range s.Stores {
		if o.Base != key || o == st {
			continue
		}
		if depth == 0 || o.Expr == nil || o.Value.HasGraph() && !p.ancestor(s, o, b, depth-1) {
			return false
		}
		any = true
	}
	return any
}

// intoBuffer tells whether the value is written into a place of something that is not known to be a list or dict: a tensor made
// beforehand takes a copy, and whoever made it wants the result. A place for each layer of a model is bounded as well.
func intoBuffer(st *flow.Store) bool {
	sub, ok := st.Target.(*pysource.Subscript)
	if !ok || st.Kind != flow.Index && st.Kind != flow.Accumulate {
		return false
	}
	if _, slice := sub.Index.(*pysource.Slice); slice {
		return true
	}
	return st.Holder.Kind != flow.Container || st.Kind == flow.Index && st.Ctx.InnermostLoop().Kind == flow.OtherLoop
}

func isTarget(key string, l *flow.Loop) bool {
	for _, t := range l.Targets {
		if t == key {
			return true
		}
	}
	return false
}

// overwritten tells whether a store lands in the same place each time, so that one value replaces the other.
func overwritten(st *flow.Store, l *flow.Loop) bool {
	if st.Kind != flow.Index {
		return false
	}
	varies := false
	pysource.Walk(st.Key, func(n pysource.Node) bool {
		if name, ok := n.(*pysource.Name); ok {
			for o := l; o != nil; o = o.Parent {
				varies = varies || isTarget(name.ID, o)
			}
		}
		return true
	})
	return !varies
}

// escapes tells whether what was stored may be wanted with its graph: returned to a caller who may call backward, handed to
// code we do not see, kept in an object.
func (p *pass) escapes(s *flow.Scope, st *flow.Store) bool {
	derived := p.derivedFrom(s, st.Base)
	for _, r := range s.Returns {
		if r.X != nil && mentionsAny(r.X, derived) && !p.onlyStatistics(s, st) {
			return true
		}
	}
	if strings.HasPrefix(st.Base, "self.") || declaredOutside(s, st.Base) || fedOn(s, st, derived) {
		return true
	}
	if s.Func != nil && (hasParam(s.Func.Node, st.Base) || !boundIn(s, st.Base)) && !evaluates(s) {
		return true // a list that was given, or one of the file: whoever reads it may back-propagate
	}
	for _, c := range s.Calls {
		if c.Order < st.Order || harmless(c) {
			continue
		}
		for i, a := range c.Node.Args {
			if c.Args[i].Shares(st.Value) && mentions(a.Value, st.Base) && !c.Result.Shares(st.Value) {
				return true
			}
		}
	}
	return s.Func != nil && s.Func.Outer != nil && s.Holds(st.Base).Kind == flow.Unknown
}

// fedOn tells whether what was added up goes through a model afterwards, or what is computed from it is kept by an object: a sum that is only read does neither.
func fedOn(s *flow.Scope, st *flow.Store, derived []string) bool {
	return slices.ContainsFunc(s.Calls, func(c *flow.Call) bool {
		return c.Order > st.Order && modelRun(c) && c.Ctx.NoGrad != flow.Off && slices.ContainsFunc(c.Node.Args, func(a pysource.Arg) bool { return mentionsAny(a.Value, derived) }) && !around(c.Node, st.Node)
	}) || slices.ContainsFunc(s.Binds, func(b *flow.Bind) bool {
		return b.Order > st.Order && strings.Contains(b.Name, ".") && b.Expr != nil && b.Value.HasGraph() && mentionsAny(b.Expr, derived)
	})
}

// declaredOutside tells whether a function says that a name is not its own: other functions may back-propagate it.
func declaredOutside(s *flow.Scope, name string) bool {
	found := false
	pysource.WalkBody(s.Body, func(n pysource.Node) bool {
		w, ok := n.(*pysource.Word)
		found = found || ok && s.Func != nil && slices.Contains(w.Names, name)
		return !found
	})
	return found
}

// joined tells whether what a loop over anything but a loader collects is put together again: the steps of a sequence.
func joined(s *flow.Scope, st *flow.Store) bool {
	for _, c := range s.Calls {
		if oneOf(c.Name, "torch.stack", "torch.cat", "torch.concat") && c.Order > st.Order && mentions(c.Node, st.Base) {
			return true
		}
	}
	return false
}

// derivedFrom lists a name and those computed from it.
func (p *pass) derivedFrom(s *flow.Scope, base string) []string {
	key := derivedKey{s, base}
	names, ok := p.known.derived[key]
	if ok {
		return names
	}
	names = []string{base}
	for _, b := range s.Binds {
		if len(names) < maxDerived && b.Expr != nil && b.Name != base && mentionsAny(b.Expr, names) {
			names = append(names, b.Name)
		}
	}
	p.known.derived[key] = names
	return names
}

func mentionsAny(n pysource.Node, names []string) bool {
	for _, name := range names {
		if mentions(n, name) {
			return true
		}
	}
	return false
}

// harmless are calls that only look at what they get.
func harmless(c *flow.Call) bool {
	switch c.Method {
	case "print", "len", "float", "int", "str", "format", "append", "extend", "add_scalar", "log", "info", "debug", "warning", "write", "round",
		"mean", "sum", "item", "set_postfix", "set_description", "isinstance", "median", "std", "array":
		return true
	}
	return c.Method == "update" && c.Recv != nil || strings.HasPrefix(c.Name, "numpy.") || strings.HasPrefix(c.Name, "math.") // nothing is differentiated through them
}

// onlyStatistics tells whether a returned sum is certainly never back-propagated: every caller in the file is known and runs
// no backward on it, or the function is an evaluation.
func (p *pass) onlyStatistics(s *flow.Scope, st *flow.Store) bool {
	if s.Func == nil {
		return false
	}
	if evaluationName(s.Func.Name) && (st.Value.Reduced || st.Kind == flow.Accumulate) {
		return true
	}
	if !st.Value.Reduced {
		return false // outputs, not a sum of losses
	}
	sites := p.m.CallSites(s.Func)
	for _, c := range sites {
		if c.Result.HasGraph() && len(p.backwards(c.Scope)) > 0 || c.Scope.Func != nil && returned(c.Scope, c) {
			return false
		}
	}
	return len(sites) > 0
}

func returned(s *flow.Scope, c *flow.Call) bool {
	for _, r := range s.Returns {
		if r.Value.Shares(c.Result) {
			return true
		}
	}
	return false
}

// evaluationName tells whether a function's name promises evaluation.
func evaluationName(name string) bool {
	for _, w := range tokens(name) {
		if oneOf(w, "eval", "evaluate", "evaluation", "validate", "validation", "valid", "vali", "val", "test", "inference", "infer", "predict", "prediction", "score") {
			return true
		}
	}
	return false
}

func hasParam(f *pysource.Function, name string) bool {
	for _, prm := range f.Params {
		if prm.Name == name {
			return true
		}
	}
	return false
}
