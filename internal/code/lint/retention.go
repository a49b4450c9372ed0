package lint

import (
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
		if inModule(s) {
			continue
		}
		backs := p.backwards(s)
		for _, st := range s.Stores {
			if st.Value.HasGraph() {
				p.graphStore(s, st, backs)
			}
		}
	}
}

func (p *pass) graphStore(s *flow.Scope, st *flow.Store, backs []backward) {
	loop := st.Ctx.InnermostLoop()
	if loop == nil || overwritten(st, loop) || rebound(s, st.Base, loop) || isTarget(st.Base, loop) || intoBuffer(st) {
		return
	}
	freed := false
	for _, b := range backs {
		if b.call.Recv != nil && flow.Key(b.call.Recv) == st.Base && !b.call.Ctx.Inside(loop) && b.call.Order > st.Order {
			return // the sum itself is back-propagated, on this path or another
		}
		if !b.value.Shares(st.Value) {
			continue
		}
		if !b.call.Ctx.Inside(loop) {
			return // kept on purpose: a later backward needs the whole graph
		}
		freed = freed || !b.retain && !b.create
	}
	what := p.text(st.Expr)
	if freed {
		p.report(st.Node, Note,
			"`"+what+"` is kept as a tensor; its activations are gone after backward, but each one still holds its graph's bookkeeping in host memory",
			"keep the number: `"+what+".item()` (or `.detach()`, which does not wait for the GPU)")
		return
	}
	if p.escapes(s, st) {
		return
	}
	severity := Error
	if st.Ctx.NoGrad == flow.Maybe {
		severity = Warning
	}
	p.report(st.Node, severity,
		"`"+what+"` keeps its autograd graph, and no backward frees it in this loop: `"+st.Base+"` holds every iteration's activations at once, so memory grows with each batch",
		"store `"+what+".item()` (a number; it waits for the GPU) or `.detach()`; if the sum is for training, call backward() on each batch instead")
	p.explains(loop)
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
	if len(st.Base) > 5 && st.Base[:5] == "self." {
		return true
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
	return c.Method == "update" && c.Recv != nil
}

// onlyStatistics tells whether a returned sum is certainly never back-propagated: every caller in the file is known and runs
// no backward on it, or the function is an evaluation.
func (p *pass) onlyStatistics(s *flow.Scope, st *flow.Store) bool {
	if s.Func == nil {
		return false
	}
	if !st.Value.Reduced {
		return false // outputs, not a sum of losses
	}
	if evaluationName(s.Func.Name) {
		return true
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
		if oneOf(w, "eval", "evaluate", "evaluation", "validate", "validation", "valid", "val", "test", "inference", "infer", "predict", "prediction", "score") {
			return true
		}
	}
	return false
}

// outputsCollected is LM002.
func outputsCollected(p *pass) {
	if !p.usesGPU() {
		return
	}
	for _, s := range p.m.Scopes {
		if inModule(s) {
			continue
		}
		for _, st := range s.Stores {
			v := st.Value
			if v.Kind != flow.Tensor || v.HasGraph() || v.OnCPU || v.Reduced || st.Kind == flow.Accumulate {
				continue
			}
			p.outputStore(s, st)
		}
	}
}

func (p *pass) outputStore(s *flow.Scope, st *flow.Store) {
	loop := st.Ctx.InnermostLoop()
	if loop == nil || overwritten(st, loop) || rebound(s, st.Base, loop) {
		return
	}
	severity := Error
	switch {
	case loop.Kind != flow.LoaderLoop && !(loop.Kind == flow.OtherLoop && fedByTarget(s, loop)):
		return
	case loop.Kind != flow.LoaderLoop || stops(loop):
		severity = Warning
	}
	what := p.text(st.Expr)
	p.report(st.Node, severity,
		"`"+st.Base+"` collects `"+what+"` of every batch on the GPU: memory grows with the size of the dataset, even without gradients",
		"move each result as you collect it: `"+what+".cpu()` (with the Hugging Face Trainer: eval_accumulation_steps, or preprocess_logits_for_metrics)")
	p.explains(loop)
}

// fedByTarget tells whether a model call in the loop gets the loop's variable, so that the loop runs over data.
func fedByTarget(s *flow.Scope, l *flow.Loop) bool {
	for _, c := range s.Calls {
		if c.Callee.Kind != flow.Model || !c.Ctx.Inside(l) {
			continue
		}
		for _, a := range c.Node.Args {
			for _, t := range l.Targets {
				if mentions(a.Value, t) {
					return true
				}
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

// hiddenState is LM004.
func hiddenState(p *pass) {
	for _, s := range p.m.Scopes {
		backs := p.backwards(s)
		for _, b := range s.Binds {
			c, ok := b.Expr.(*pysource.Call)
			loop := b.Ctx.InnermostLoop()
			if !ok || loop == nil || !b.Value.HasGraph() || !carries(s, b, c) || !anyBackward(backs, loop) {
				continue
			}
			if p.cutElsewhere(s, b, loop) || p.reportedAt(b.Node) {
				continue
			}
			p.report(b.Node, Error,
				"`"+b.Name+"` goes from one batch into the next with its graph: backward reaches back through every earlier batch, or fails with \"backward through the graph a second time\"",
				"cut it before each batch: `"+b.Name+" = "+b.Name+".detach()` (each part of an LSTM's tuple); do not answer the error with retain_graph=True")
			p.explains(loop)
		}
	}
}

// carries tells whether a call takes the state it gives back: out, h = rnn(x, h).
func carries(s *flow.Scope, b *flow.Bind, c *pysource.Call) bool {
	site := callSite(s, c)
	if site == nil || site.Callee.Kind != flow.Model && !(site.RecvValue.Kind == flow.Model && site.Method == "forward") {
		return false
	}
	assign, ok := b.Node.(*pysource.Assign)
	if !ok {
		return false
	}
	_, unpacked := assign.Targets[0].(*pysource.Sequence)
	if !unpacked && !stateName(b.Name) {
		return false
	}
	for _, a := range c.Args {
		parts := []pysource.Expr{a.Value}
		if pair, ok := a.Value.(*pysource.Sequence); ok {
			parts = pair.Items
		}
		for _, x := range parts {
			if flow.Key(x) == b.Name {
				return true
			}
		}
	}
	return false
}

func stateName(name string) bool {
	for _, w := range tokens(flow.Last(name)) {
		if oneOf(w, "h", "hx", "hidden", "state", "states", "mem", "mems", "memory", "hn", "hc") {
			return true
		}
	}
	return false
}

func callSite(s *flow.Scope, c *pysource.Call) *flow.Call {
	for _, site := range s.Calls {
		if site.Node == c {
			return site
		}
	}
	return nil
}

func anyBackward(backs []backward, l *flow.Loop) bool {
	for _, b := range backs {
		if b.call.Ctx.InnermostLoop() == l {
			return true
		}
	}
	return false
}

// cutElsewhere tells whether the loop gives the state a new start.
func (p *pass) cutElsewhere(s *flow.Scope, b *flow.Bind, l *flow.Loop) bool {
	for _, other := range s.Binds {
		if other != b && other.Name == b.Name && other.Node != b.Node && other.Ctx.Inside(l) {
			if x, ok := other.Expr.(*pysource.Call); ok && oneOf(flow.Last(p.m.Dotted(x.Func)), "to", "cuda") {
				continue
			}
			return true
		}
	}
	for _, c := range s.Calls {
		if c.Recv != nil && c.Ctx.Inside(l) && flow.Key(c.Recv) == b.Name && c.Method == "detach_" {
			return true
		}
		if c.Ctx.Inside(l) && c.Node != b.Expr && callMentionsDetach(c, b.Name) {
			return true
		}
	}
	// A name that is not bound before the loop cannot bring anything from an earlier batch.
	for _, other := range s.Binds {
		if other.Name == b.Name && other.Order < b.Order && !other.Ctx.Inside(l) {
			return false
		}
	}
	return s.Func == nil || !hasParam(s.Func.Node, b.Name)
}

func callMentionsDetach(c *flow.Call, name string) bool {
	return oneOf(c.Method, "detach", "detach_", "repackage_hidden", "detach_hidden", "repackage") && (mentions(c.Node, name) || c.Recv != nil && mentions(c.Recv, name))
}

func hasParam(f *pysource.Function, name string) bool {
	for _, prm := range f.Params {
		if prm.Name == name {
			return true
		}
	}
	return false
}
