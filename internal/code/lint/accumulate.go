package lint

import (
	"fmt"
	"slices"
	"strings"

	"github.com/plimsoll/plimsoll/internal/code/flow"
	"github.com/plimsoll/plimsoll/internal/code/pysource"
)

// training is one loop as an optimizer sees it.
type training struct {
	loop    *flow.Loop
	backs   []backward   // in this loop, not in a loop inside it
	steps   []*flow.Call // optimizer.step(), scaler.step(optimizer)
	zeros   []*flow.Call // optimizer.zero_grad(), model.zero_grad()
	managed bool         // Accelerate, DeepSpeed or the like decide when to step
}

// trainings describes every loop of a body that runs a backward.
func (p *pass) trainings(s *flow.Scope) []training {
	backs := p.backwards(s)
	var out []training
	for _, l := range s.Loops {
		t := training{loop: l}
		for _, b := range backs {
			if b.call.Ctx.InnermostLoop() == l {
				t.backs = append(t.backs, b)
			}
		}
		if len(t.backs) == 0 {
			continue
		}
		for _, c := range s.Calls {
			if !c.Ctx.Inside(l) {
				continue
			}
			switch {
			case isStep(c):
				t.steps = append(t.steps, c)
			case isZero(c):
				t.zeros = append(t.zeros, c)
			}
			t.managed = t.managed || managed(c)
		}
		out = append(out, t)
	}
	return out
}

func isStep(c *flow.Call) bool {
	return c.Method == "step" && c.Recv != nil && (c.RecvValue.Kind == flow.Optimizer || c.RecvValue.Kind == flow.Scaler)
}

func isZero(c *flow.Call) bool {
	return c.Method == "zero_grad" && c.Recv != nil && (c.RecvValue.Kind == flow.Optimizer || c.RecvValue.Kind == flow.Model)
}

// managed tells whether a call belongs to a library that skips zero_grad and step itself, or divides the loss.
func managed(c *flow.Call) bool {
	if c.Method == "backward" && c.Recv != nil && (c.RecvValue.Kind == flow.Helper || c.RecvValue.Kind == flow.Model || strings.Contains(flow.Key(c.Recv), "engine")) {
		return true
	}
	return c.Ctx.Within(func(x *flow.Context) bool { return x.With != nil && flow.Last(x.Name) == "accumulate" })
}

// accumulation is the condition under which a loop steps: every n-th turn.
type accumulation struct {
	test    pysource.Expr // the whole condition
	modulus pysource.Expr // n; nil where a flag decides
}

// accumulates finds the condition a step stands under.
func accumulates(t training, step *flow.Call) (accumulation, bool) {
	for _, b := range step.Ctx.Branches(t.loop) {
		if b.Else {
			continue
		}
		if mod := modulus(b.Test); mod != nil {
			return accumulation{b.Test, mod}, true
		}
		if words(b.Test, stepFlag) {
			return accumulation{b.Test, nil}, true
		}
	}
	return accumulation{}, false
}

func stepFlag(w string) bool {
	w = strings.ToLower(w)
	return strings.Contains(w, "accum") || oneOf(w, "should_step", "do_step", "is_update_step", "update_grad", "need_update", "should_update")
}

// modulus finds n of "… % n == 0".
func modulus(test pysource.Expr) pysource.Expr {
	var n pysource.Expr
	pysource.Walk(test, func(x pysource.Node) bool {
		if b, ok := x.(*pysource.Binary); ok && b.Op == "%" && n == nil {
			if _, text := b.Left.(*pysource.String); !text {
				n = b.Right
			}
		}
		return n == nil
	})
	return n
}

// zeroInsideAccumulation is LM010.
func zeroInsideAccumulation(p *pass) {
	for _, s := range p.m.Scopes {
		for _, t := range p.trainings(s) {
			if t.managed {
				continue
			}
			for _, zero := range t.zeros {
				if step := spoils(s, t, zero); step != nil {
					p.report(zero.Node, certainlySame(t, zero, step),
						"the gradients are thrown away in every micro-batch, but the step comes only at some of them: each update uses the last micro-batch alone",
						"move zero_grad() into the `if` beside `"+p.text(step.Node)+"`, after it")
					break
				}
			}
			p.zeroInMicroLoop(s, t)
		}
	}
}

// certainlySame is an error where the optimizer that is cleared in every turn is the one that steps at every n-th; where a model or a scaler stands
// for it, or a flag for the counter, it may be another.
func certainlySame(t training, zero, step *flow.Call) Severity {
	a, _ := accumulates(t, step)
	same := flow.Key(zero.Recv) == flow.Key(step.Recv) || len(step.Node.Args) > 0 && flow.Key(step.Node.Args[0].Value) == flow.Key(zero.Recv)
	if same && a.modulus != nil {
		return Error
	}
	return Warning
}

// spoils finds the conditional step whose accumulation an unconditional zero_grad destroys.
func spoils(s *flow.Scope, t training, zero *flow.Call) *flow.Call {
	if len(zero.Ctx.Branches(t.loop)) > 0 || zero.Ctx.InnermostLoop() != t.loop {
		return nil
	}
	var conditional *flow.Call
	for _, step := range t.steps {
		if step.Ctx.InnermostLoop() != t.loop {
			return nil
		}
		_, every := accumulates(t, step)
		if !every {
			if len(step.Ctx.Branches(t.loop)) == 0 {
				return nil // an unconditional step as well: not one accumulation
			}
			continue
		}
		if zero.RecvValue.Kind == flow.Optimizer && step.RecvValue.Kind == flow.Optimizer && flow.Key(zero.Recv) != flow.Key(step.Recv) {
			continue
		}
		if backsWhereSteps(t, step) {
			return nil // turns take another loss or another network: nothing is added up
		}
		conditional = step
	}
	if conditional == nil {
		return nil
	}
	if alwaysBack(t) {
		return conditional
	}
	return nil
}

// alwaysBack tells whether every turn of a loop runs a backward: one without a condition, or one on either side of it
// (scaler.scale(loss).backward() if there is a scaler, else loss.backward()).
func alwaysBack(t training) bool {
	sides := map[pysource.Expr]int{}
	for _, b := range t.backs {
		branches := b.call.Ctx.Branches(t.loop)
		if len(branches) == 0 {
			return true
		}
		if len(branches) == 1 {
			side := 1
			if branches[0].Else {
				side = 2
			}
			if sides[branches[0].Test] |= side; sides[branches[0].Test] == 3 {
				return true
			}
		}
	}
	return false
}

// zeroInMicroLoop is the other shape of LM010: a loop of micro-batches that clears, and a step after it.
func (p *pass) zeroInMicroLoop(s *flow.Scope, t training) {
	if len(t.steps) > 0 || !microLoop(t.loop) {
		return
	}
	for _, zero := range t.zeros {
		if len(zero.Ctx.Branches(t.loop)) == 0 && zero.RecvValue.Kind == flow.Optimizer && stepsAfter(s, t.loop) != nil {
			p.report(zero.Node, Error,
				"the gradients are thrown away in every micro-batch, but the step comes after the loop: the update uses the last micro-batch alone",
				"move zero_grad() before the loop of micro-batches")
			return
		}
	}
}

// microLoop tells whether a loop counts micro-batches: range(accumulation_steps).
func microLoop(l *flow.Loop) bool {
	return l.Kind == flow.RangeLoop && words(l.Iter, func(w string) bool {
		w = strings.ToLower(w)
		return strings.Contains(w, "accum") || strings.Contains(w, "micro")
	})
}

// stepsAfter finds the optimizer step that follows a loop in the block around it.
func stepsAfter(s *flow.Scope, l *flow.Loop) *flow.Call {
	for _, c := range s.Calls {
		if isStep(c) && !c.Ctx.Inside(l) && c.Ctx.InnermostLoop() == l.Parent && c.Node.Start > l.Node.Pos().End-1 {
			return c
		}
	}
	return nil
}

// lossNotScaled is LM011.
func lossNotScaled(p *pass) {
	p.trainerLoss()
	// A loss of the YOLO family is summed over the batch, and its micro-batches add up to a nominal one.
	if p.sourceHas(`reduction="sum"`, "reduction='sum'", "scale_grads", "num_items_in_batch", "size_average=False", "nbs", "nominal", "reduction==sum", "reduction == sum", "reduction=sum") {
		return
	}
	for _, s := range p.m.Scopes {
		for _, t := range p.trainings(s) {
			if t.managed || rescales(s, t) {
				continue
			}
			p.unscaled(s, t)
		}
	}
}

// trainerLoss finds a Trainer whose compute_loss takes num_items_in_batch, which makes the Trainer leave the division by the
// number of micro-batches to it, and does not use it
// (https://github.com/huggingface/transformers/blob/v4.57.0/src/transformers/trainer.py, training_step and compute_loss).
func (p *pass) trainerLoss() {
	for _, c := range p.m.Classes {
		fn := c.Methods["compute_loss"]
		if fn == nil || fn.Scope == nil || !c.Derives("Trainer", "Seq2SeqTrainer", "SFTTrainer") || !hasParam(fn.Node, "num_items_in_batch") {
			continue
		}
		uses := func(w string) bool { return oneOf(w, "num_items_in_batch", "gradient_accumulation_steps") }
		if bodyHas(fn.Node.Body, uses) || bodyHas(fn.Node.Body, func(w string) bool { return w == "compute_loss" }) {
			continue
		}
		for _, r := range fn.Scope.Returns {
			if r.X == nil {
				continue
			}
			p.report(r.X, Note,
				"the Trainer passes num_items_in_batch so that the loss of an accumulated batch is divided once, by all its tokens; this loss ignores it, and with gradient accumulation it comes out too large by the number of micro-batches",
				"sum the loss and divide it by num_items_in_batch, or divide by self.args.gradient_accumulation_steps. It does not affect memory, but it changes the training")
			break
		}
	}
}

// clipsEach tells whether a loop cuts the gradients more often than it steps: after every backward, not only before a step.
func clipsEach(s *flow.Scope, t training) bool {
	return slices.ContainsFunc(s.Calls, func(c *flow.Call) bool {
		return oneOf(c.Method, "clip_grad_norm_", "clip_grad_norm", "clip_grad_value_") && c.Ctx.InnermostLoop() == t.loop &&
			!slices.ContainsFunc(t.steps, func(step *flow.Call) bool { return sharesCount(c, step, t.loop) })
	})
}

// sharesCount tells whether a call stands in every branch of a step that counts.
func sharesCount(c, step *flow.Call, l *flow.Loop) bool {
	return !slices.ContainsFunc(step.Ctx.Branches(l), func(b *flow.Context) bool {
		return modulus(b.Test) != nil && !c.Ctx.Within(func(x *flow.Context) bool { return x == b })
	})
}

func (p *pass) unscaled(s *flow.Scope, t training) {
	by := ""
	for _, step := range t.steps {
		if alternates(t, step) {
			return
		}
		a, every := accumulates(t, step)
		if !every && len(step.Ctx.Branches(t.loop)) == 0 {
			return // an unconditional step as well: not one accumulation
		}
		if every && a.modulus != nil && step.Ctx.InnermostLoop() == t.loop {
			by = p.text(a.modulus)
		}
	}
	if by == "" && len(t.steps) == 0 && microLoop(t.loop) && stepsAfter(s, t.loop) != nil {
		if c, ok := t.loop.Iter.(*pysource.Call); ok && len(c.Args) > 0 {
			by = p.text(c.Args[len(c.Args)-1].Value)
		}
	}
	if by == "" || by == "1" {
		return
	}
	if clipsEach(s, t) {
		return // whatever was added up is cut to the same length again
	}
	b := t.backs[0]
	if len(b.call.Ctx.Branches(t.loop)) > 0 || b.value.Divided || b.value.Guess || !b.value.HasGraph() || b.call.Method != "backward" {
		return
	}
	p.report(b.call.Node, Warning,
		fmt.Sprintf("the loss is added up over %s micro-batches without dividing it: the gradient is that many times too large. It does not affect memory, but it changes the training", by),
		"back-propagate the share: "+p.share(b, by))
	p.needs(Sums)
}

// share writes the backward of a part of a loss, under the loss's own name where it has one.
func (p *pass) share(b backward, by string) string {
	loss := b.call.Recv
	scaled, isScaled := loss.(*pysource.Call)
	if isScaled && len(scaled.Args) == 1 { // scaler.scale(loss)
		return "`" + p.text(scaled.Func) + "(" + p.text(scaled.Args[0].Value) + " / " + by + ").backward()`"
	}
	if flow.Key(loss) == "" {
		return "`(loss / " + by + ").backward()`"
	}
	return "`(" + p.text(loss) + " / " + by + ").backward()`"
}

// rescales tells whether the gradients themselves are divided before the step, in a loop over parameters.
func rescales(s *flow.Scope, t training) bool {
	for _, l := range s.Loops {
		if l == t.loop || l.Iter == nil || !words(l.Iter, func(w string) bool { return w == "parameters" || w == "named_parameters" || w == "params" }) {
			continue
		}
		if bodyHas(l.Body, func(w string) bool { return w == "grad" }) {
			return true
		}
	}
	return false
}

// remainderDropped is LM012.
func remainderDropped(p *pass) {
	if p.sourceHas("drop_last=True") {
		return
	}
	for _, s := range p.m.Scopes {
		for _, t := range p.trainings(s) {
			if t.managed || t.loop.Kind != flow.LoaderLoop {
				continue
			}
			for _, step := range t.steps {
				a, ok := accumulates(t, step)
				if !ok || a.modulus == nil || alternates(t, step) || !plainModulus(a.test, t.loop) || stepsAfter(s, t.loop) != nil {
					continue
				}
				if n, known := s.Int(a.modulus); known && n == 1 {
					continue
				}
				p.report(a.test, Note,
					"when the number of batches is not a multiple of "+p.text(a.modulus)+", the last ones are back-propagated but never stepped; their gradients leak into the next epoch or are thrown away",
					"step at the end too: `if … % "+p.text(a.modulus)+" == 0 or i + 1 == len(loader):`, or, where the loader has no length, once after the loop")
				break
			}
		}
	}
}

// alternates tells whether a loop with several optimizers trains one of them less often (n_critic of a GAN): its own gradients are
// cleared where it is stepped, so nothing is accumulated, or another optimizer steps in every turn.
func alternates(t training, step *flow.Call) bool {
	for _, o := range t.steps {
		if flow.Key(o.Recv) != flow.Key(step.Recv) && step.RecvValue.Kind == flow.Optimizer {
			return true
		}
	}
	return backsWhereSteps(t, step)
}

// backsWhereSteps tells whether a backward stands under the same condition as a step.
func backsWhereSteps(t training, step *flow.Call) bool {
	for _, b := range t.backs {
		for _, branch := range b.call.Ctx.Branches(t.loop) {
			if slices.Contains(step.Ctx.Branches(t.loop), branch) {
				return true
			}
		}
	}
	return false
}

// plainModulus tells whether a condition is nothing but a test of the loop's own counter.
func plainModulus(test pysource.Expr, l *flow.Loop) bool {
	c, ok := test.(*pysource.Compare)
	if !ok || len(c.Ops) != 1 || c.Ops[0] != "==" {
		return false
	}
	b, ok := c.Values[0].(*pysource.Binary)
	if !ok || b.Op != "%" {
		return false
	}
	for _, t := range l.Targets {
		if mentions(b.Left, t) {
			return true
		}
	}
	return false
}

// indexStride is LM013.
func indexStride(p *pass) {
	for _, s := range p.m.Scopes {
		for _, inner := range s.Loops {
			outer := inner.Parent
			if outer == nil || len(inner.Targets) != 1 || len(outer.Targets) != 1 || !isRange(inner.Iter) || !isRange(outer.Iter) {
				continue
			}
			stride := rangeStep(outer.Iter)
			if stride == nil || rangeStep(inner.Iter) != nil {
				continue
			}
			if at := p.overlap(inner, outer.Targets[0], stride); at != nil && p.anyBackwardIn(s, inner) {
				p.report(at, Error,
					"the outer loop advances by `"+p.text(stride)+"`, the inner one reads that many samples again for each micro-batch: the windows overlap, samples are used many times over and the last slices run past the end",
					"advance by the whole batch: `range(0, n, "+p.text(stride)+" * "+lastArg(p, inner.Iter)+")`")
			}
		}
	}
}

func (p *pass) anyBackwardIn(s *flow.Scope, l *flow.Loop) bool {
	for _, b := range p.backwards(s) {
		if b.call.Ctx.Inside(l) {
			return true
		}
	}
	return false
}

// isRange tells whether a loop counts, be it over the length of a dataset.
func isRange(iter pysource.Expr) bool {
	c, ok := iter.(*pysource.Call)
	return ok && flow.Key(c.Func) == "range"
}

// rangeStep is the third argument of range, or nil.
func rangeStep(iter pysource.Expr) pysource.Expr {
	c, ok := iter.(*pysource.Call)
	if !ok || len(c.Args) != 3 {
		return nil
	}
	return c.Args[2].Value
}

func lastArg(p *pass, iter pysource.Expr) string {
	if c, ok := iter.(*pysource.Call); ok && len(c.Args) > 0 {
		return p.text(c.Args[len(c.Args)-1].Value)
	}
	return "n"
}

// overlap finds "i + j * stride" in the inner loop.
func (p *pass) overlap(inner *flow.Loop, i string, stride pysource.Expr) pysource.Node {
	want, j := p.text(stride), inner.Targets[0]
	var at pysource.Node
	pysource.WalkBody(inner.Body, func(n pysource.Node) bool {
		sum, ok := n.(*pysource.Binary)
		if !ok || at != nil || sum.Op != "+" {
			return at == nil
		}
		for _, side := range [][2]pysource.Expr{{sum.Left, sum.Right}, {sum.Right, sum.Left}} {
			product, ok := side[1].(*pysource.Binary)
			if !ok || product.Op != "*" || flow.Key(side[0]) != i || !mentions(product, j) {
				continue
			}
			if p.text(product.Left) == want || p.text(product.Right) == want {
				at = sum
			}
		}
		return at == nil
	})
	return at
}
