package lint

import (
	"slices"
	"strings"

	"github.com/plimsoll/plimsoll/internal/code/flow"
	"github.com/plimsoll/plimsoll/internal/code/pysource"
	"github.com/plimsoll/plimsoll/internal/torch"
)

// missingZeroGrad is LM017. It is about correctness alone: .grad is summed in place, so memory does not grow by a byte.
func missingZeroGrad(p *pass) {
	for _, s := range p.m.Scopes {
		if len(p.backwards(s)) == 0 || p.clearsSomewhere(s) {
			continue
		}
		if p.sourceHas("zero_grad", "reset_grad", ".grad = ", ".grad=", "del p.grad", "del param.grad", "_foreach_zero_", "apply_optimizer_in_backward", "deepspeed") {
			return
		}
		for _, t := range p.trainings(s) {
			if t.managed || len(t.zeros) > 0 || len(t.steps) == 0 {
				continue
			}
			step := t.steps[0]
			if len(step.Node.Args) > 0 && step.RecvValue.Kind == flow.Optimizer {
				continue // a closure clears by itself, as LBFGS wants it
			}
			if p.clearsInside(s, t) {
				continue
			}
			if step.RecvValue.Guess && !t.backs[0].value.HasGraph() {
				continue // neither the optimizer nor the loss is known
			}
			severity := Note // a loop that runs no model shows something else: how a scheduler goes, say
			if t.loop.Kind == flow.LoaderLoop || slices.ContainsFunc(s.Calls, func(c *flow.Call) bool { return c.Ctx.Inside(t.loop) && (modelRun(c) || s.Facts(c) != nil) }) {
				severity = Warning
			}
			p.report(step.Node, severity,
				"no zero_grad() in this loop: every step uses the sum of all gradients so far. It costs no memory (gradients are added in place), but the training is wrong",
				"call `optimizer.zero_grad()` before the first backward() of each step")
			break
		}
	}
}

// clearsInside tells whether something the loop calls may clear the gradients out of sight: a method of a model or an optimizer
// whose class is in another place, a function of the project that does.
func (p *pass) clearsInside(s *flow.Scope, t training) bool {
	for _, c := range s.Calls {
		if !c.Ctx.Inside(t.loop) {
			continue
		}
		class := c.Callee.Class
		if class == "" {
			class = c.RecvValue.Class
		}
		if class != "" && p.m.ClassDoes(class, "zero_grad") {
			return true
		}
		if c.Recv != nil && c.Callee.Kind == flow.Unknown && c.RecvValue.Kind == flow.Unknown && !strings.HasPrefix(c.Name, "torch.") &&
			slices.ContainsFunc(c.Args, func(v flow.Value) bool { return v.Kind == flow.Model || v.Kind == flow.Optimizer }) {
			return true // an object of another place is given the model or the optimizer
		}
	}
	return false
}

// clearsSomewhere tells whether gradients are cleared in the body, in what it calls, or in a way we do not follow.
func (p *pass) clearsSomewhere(s *flow.Scope) bool {
	for _, c := range s.Calls {
		if strings.Contains(c.Method, "zero_grad") || c.Method == "zero_" || c.Method == "clear_grad" || s.CallReaches(c, "zero_grad") {
			return true
		}
	}
	for _, b := range s.Binds {
		if strings.HasSuffix(b.Name, ".grad") {
			return true
		}
	}
	return false
}

// setToNone is LM018.
func setToNone(p *pass) {
	for _, s := range p.m.Scopes {
		for _, c := range s.Calls {
			if c.Method == "zero_grad" && isFalse(keyword(c.Node, "set_to_none")) {
				p.report(c.Node, Note,
					"set_to_none=False keeps every gradient's memory through the next forward, one copy of the trainable parameters at the time of the peak",
					"drop the argument: since PyTorch 2.0 zero_grad() frees the gradients. Keep it where code reads .grad before the next backward(), or where a step should also move parameters that got no gradient")
			}
		}
	}
}

// optimizerBeforeWrap is LM019.
func optimizerBeforeWrap(p *pass) { p.optimizers(p.wrapAfter) }

// optimizers visits every call that makes an optimizer of m.parameters().
func (p *pass) optimizers(visit func(s *flow.Scope, made *flow.Call, model string)) {
	for _, s := range p.m.Scopes {
		for _, made := range s.Calls {
			if made.Result.Kind != flow.Optimizer || len(made.Node.Args) == 0 {
				continue
			}
			if model := parametersOf(made.Node.Args[0].Value); model != "" {
				visit(s, made, model)
			}
		}
	}
}

// parametersOf finds m in m.parameters().
func parametersOf(x pysource.Expr) string {
	c, ok := x.(*pysource.Call)
	if !ok {
		return ""
	}
	a, ok := c.Func.(*pysource.Attribute)
	if !ok || a.Attr != "parameters" {
		return ""
	}
	return flow.Key(a.X)
}

func (p *pass) wrapAfter(s *flow.Scope, made *flow.Call, model string) {
	for _, c := range s.Calls {
		if c.Order <= made.Order || len(c.Ctx.Branches(nil)) > 0 || len(made.Ctx.Branches(nil)) > 0 {
			continue
		}
		if replaced(s, model, made.Order, c.Order) {
			return // another model by then
		}
		switch {
		case c.Result.Wrap == "FullyShardedDataParallel" && len(c.Node.Args) > 0 && flow.Key(c.Node.Args[0].Value) == model && wraps(c):
			p.report(made.Node, Error,
				"the optimizer is made before the model is sharded: it holds the whole parameters (and keeps them alive), not this rank's shards",
				"create the optimizer after `"+p.text(c.Node)+"`")
			return
		case (c.Method == "to" || c.Method == "cuda") && c.Recv != nil && flow.Key(c.Recv) == model && c.RecvValue.Kind == flow.Model && !movedBefore(s, model, made.Order) &&
			!movesBack(c):
			p.report(made.Node, Note,
				"the optimizer is made before `"+p.text(c.Node)+"`; for plain modules that is harmless, but state created before the move stays on the old device",
				"move the model first, then create the optimizer")
			return
		}
	}
}

// replaced tells whether a name is given another object between two places.
func replaced(s *flow.Scope, key string, from, until int) bool {
	for _, b := range s.Binds {
		if b.Name == key && b.Order > from && b.Order < until && b.Expr != nil && !mentions(b.Expr, key) {
			return true
		}
	}
	return false
}

// movedBefore tells whether a model was on its device already when the optimizer was made.
func movedBefore(s *flow.Scope, model string, order int) bool {
	for _, c := range s.Calls {
		if c.Order < order && (c.Method == "to" || c.Method == "cuda") && (c.Recv != nil && flow.Key(c.Recv) == model || boundTo(s, c, model)) {
			return true
		}
	}
	for _, b := range s.Binds { // net = Net().to(device), or made elsewhere
		if b.Name == model && b.Order < order && b.Expr != nil && words(b.Expr, func(w string) bool { return w == "to" || w == "cuda" || w == "device" || w == "gpu" }) {
			return true
		}
	}
	return false
}

func boundTo(s *flow.Scope, c *flow.Call, key string) bool {
	for _, b := range s.Binds {
		if b.Name == key && b.Expr == pysource.Expr(c.Node) {
			return true
		}
	}
	return false
}

// movesBack tells whether a call sends the model to the CPU, or only changes its dtype.
func movesBack(c *flow.Call) bool {
	if c.Method == "cuda" || len(c.Node.Args) == 0 {
		return false
	}
	text, ok := c.Node.Args[0].Value.(*pysource.String)
	return ok && text.Value == "cpu" || !flow.GPUDevice(c.Node.Args[0].Value)
}

func wraps(c *flow.Call) bool {
	return oneOf(flow.Last(c.Name), "FSDP", "FullyShardedDataParallel", "fully_shard")
}

// foreachPeak is LM021.
func foreachPeak(p *pass) {
	for _, s := range p.m.Scopes {
		for _, c := range s.Calls {
			if !torch.HoldsLists(c.Name) || splat(c.Node) || keyword(c.Node, "foreach") != nil || keyword(c.Node, "fused") != nil {
				continue
			}
			p.report(c.Node, Note,
				"on the GPU this optimizer steps all parameters at once (foreach) and needs temporaries of about one copy of the parameters for it",
				"fused=True (PyTorch 2.0 or newer, parameters on the GPU), or foreach=False (1.12 or newer, slower), if memory runs out in optimizer.step()")
		}
	}
}

// ampMisuse is LM022.
func ampMisuse(p *pass) {
	for _, s := range p.m.Scopes {
		scaled := false
		for _, c := range s.Calls {
			scaled = scaled || c.Method == "scale" && c.RecvValue.Kind == flow.Scaler
		}
		if scaled {
			p.clipBeforeUnscale(s)
			p.scalerInMicroBatch(s)
		}
	}
}

// clipBeforeUnscale finds clip_grad_norm_ between a scaled backward and the step, without unscale_.
func (p *pass) clipBeforeUnscale(s *flow.Scope) {
	for _, c := range s.Calls {
		if !strings.HasPrefix(c.Method, "clip_grad_norm") && c.Method != "clip_grad_value_" || c.Recv != nil && !strings.HasPrefix(c.Name, "torch.") {
			continue // a method of something else, which may unscale by itself
		}
		unscaled, stepped := false, (*flow.Call)(nil)
		for _, o := range s.Calls {
			if o.Order < c.Order && !exclude(o.Ctx, c.Ctx) && (o.Method == "unscale_" || givenScaler(s, o)) {
				unscaled = true
			}
			if o.RecvValue.Kind != flow.Scaler || o.Ctx.InnermostLoop() != c.Ctx.InnermostLoop() || exclude(o.Ctx, c.Ctx) {
				continue
			}
			if o.Method == "step" && o.Order > c.Order {
				stepped = o
			}
		}
		if stepped != nil && !unscaled {
			p.report(c.Node, Error,
				"the gradients are still multiplied by the loss scale here: the clipping compares scaled numbers and cuts nearly everything",
				p.unscaleAdvice(s, c, stepped))
			if p.clippedEarly(s, c, stepped) {
				p.byHand()
			}
		}
	}
}

// unscaleAdvice says where to unscale. It must not run twice for one step (https://github.com/pytorch/pytorch/blob/v2.11.0/torch/amp/grad_scaler.py, unscale_), so
// what is clipped in every micro-batch, or before a call that comes too late, is clipped beside the step.
func (p *pass) unscaleAdvice(s *flow.Scope, clip, step *flow.Call) string {
	if p.clippedEarly(s, clip, step) {
		return "clip right before the step, where the step is, after one `scaler.unscale_(optimizer)`: it may run only once for each step"
	}
	return "call `scaler.unscale_(optimizer)` first, once for each step"
}

// clippedEarly tells whether gradients are clipped more often than they are stepped, or are unscaled afterwards.
func (p *pass) clippedEarly(s *flow.Scope, clip, step *flow.Call) bool {
	loop := clip.Ctx.InnermostLoop()
	return !holds(step.Ctx, clip.Ctx) || slices.ContainsFunc(s.Calls, func(o *flow.Call) bool {
		return o.Method == "unscale_" && o.Order > clip.Order && o.Ctx.Inside(loop)
	})
}

// givenScaler tells whether a function of which nothing more is known is given a scaler: it may unscale.
func givenScaler(s *flow.Scope, c *flow.Call) bool {
	return !strings.HasPrefix(c.Name, "torch.") && c.Callee.Kind != flow.Scaler && c.Method != "append" && slices.ContainsFunc(c.Args, func(v flow.Value) bool { return v.Kind == flow.Scaler })
}

// exclude tells whether two places stand on either side of the same test: a run comes to one of them only.
func exclude(a, b *flow.Context) bool {
	for _, x := range a.Branches(nil) {
		for _, y := range b.Branches(nil) {
			if x.Test == y.Test && x.Else != y.Else {
				return true
			}
		}
	}
	return false
}

// scalerInMicroBatch finds scaler.step, update or unscale_ outside the accumulation's condition.
func (p *pass) scalerInMicroBatch(s *flow.Scope) {
	for _, t := range p.trainings(s) {
		conditional := false
		for _, step := range t.steps {
			_, ok := accumulates(t, step)
			conditional = conditional || ok && !backsWhereSteps(t, step)
		}
		if !conditional || t.managed || severalOptimizers(t) {
			continue
		}
		for _, c := range s.Calls {
			if c.RecvValue.Kind != flow.Scaler || !oneOf(c.Method, "update", "unscale_", "step") || c.Ctx.InnermostLoop() != t.loop || len(c.Ctx.Branches(t.loop)) > 0 {
				continue
			}
			p.report(c.Node, Error,
				"scaler."+c.Method+"() runs for every micro-batch, but belongs to the step: the scale must not change, nor the gradients be unscaled, while they are still being added up",
				"move it into the `if` beside the step")
			return
		}
	}
}

// severalOptimizers tells whether a loop steps more than one optimizer: one of them may be trained less often.
func severalOptimizers(t training) bool {
	stepped := func(c *flow.Call) string {
		if c.RecvValue.Kind == flow.Scaler && len(c.Node.Args) > 0 {
			return flow.Key(c.Node.Args[0].Value)
		}
		return flow.Key(c.Recv)
	}
	return slices.ContainsFunc(t.steps, func(c *flow.Call) bool { return stepped(c) != stepped(t.steps[0]) })
}
