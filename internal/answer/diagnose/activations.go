package diagnose

import (
	"fmt"
	"slices"

	"github.com/plimsoll/plimsoll/internal/answer/report"
	"github.com/plimsoll/plimsoll/internal/evidence/callsite"
	"github.com/plimsoll/plimsoll/internal/memory/tape"
	"github.com/plimsoll/plimsoll/internal/memory/timeline"
	"github.com/plimsoll/plimsoll/internal/units"
	"github.com/plimsoll/plimsoll/snapshot"
)

var activationRules = []rule{exceptionHolds, inputSpike, logits, attention, checkpointingIneffective, activations}

// activations: the graph of the forward pass is most of what is in use.
func activations(c *Case) (report.Finding, bool) {
	if c.OOM == nil || c.OOM.Phase == callsite.Load {
		return report.Finding{}, false
	}
	act := c.thisStep(tape.Activations)
	if c.OOM.Step > 0 {
		act += c.thisStep(tape.Inputs) // in the first step they may be a data set
	}
	if 2*act < c.InUse {
		return report.Finding{}, false
	}
	f := report.Finding{
		ID: "activations-dominate", Severity: report.Error, Confidence: share(act, c.InUse), Bytes: act, Where: c.failurePlace(),
		Title: "activations dominate: the batch is too large for this card",
	}
	f.Evidence = []string{fmt.Sprintf("%s of %s in use are activations of this step, which shrink with the batch", act, c.InUse)}
	if layers, each := c.layers(); layers > 1 && !c.Origins.Of(c.OOM.Stack).Compiled {
		f.Evidence = append(f.Evidence, fmt.Sprintf("the forward pass keeps about %s a layer for backward, and was in layer %d", each, layers))
	}
	if unused := c.OOM.Held - c.InUse; 20*unused < c.OOM.Held {
		f.Evidence = append(f.Evidence, notFragmentation(unused))
	}
	if c.OOM.Eval {
		f.Title = "the evaluation batch is too large for this card"
		f.Remedies = []report.Remedy{
			{Action: "a smaller evaluation batch: results do not depend on it", Saves: act / 2, CheckedBy: report.ByArithmetic},
			{Action: "torch.inference_mode() around evaluation, if it is not there yet", CheckedBy: report.ByRule},
		}
		return f, true
	}
	f.Remedies = []report.Remedy{{Action: halve, Saves: act / 2, CheckedBy: report.ByArithmetic}}
	if c.checkpointing() {
		f.Evidence = append(f.Evidence, "activation checkpointing is on already")
	} else {
		f.Remedies = append(f.Remedies, saving(c.checkpointed(act), "activation checkpointing: model.gradient_checkpointing_enable() or torch.utils.checkpoint, about a third more time"))
	}
	f.Remedies = append(f.Remedies, report.Remedy{Action: `torch.autocast("cuda", dtype=torch.bfloat16) around forward and loss`, CheckedBy: report.ByRule, Numerics: true})
	return f, true
}

// notFragmentation refutes what PyTorch's message advises every time.
func notFragmentation(unused units.Bytes) string {
	if unused <= 0 {
		return "not fragmentation, although the message suggests it: all that is held is in use"
	}
	return fmt.Sprintf("not fragmentation, although the message suggests it: only %s is held but unused", unused)
}

// halve is the remedy that costs nothing but a line.
const halve = "halve the micro-batch, accumulate two: same training"

// saving is a remedy whose bytes were computed, or, where they could not be, one that is merely known to help.
func saving(bytes units.Bytes, action string) report.Remedy {
	if bytes <= 0 {
		return report.Remedy{Action: action, CheckedBy: report.ByRule}
	}
	return report.Remedy{Action: action, Saves: bytes, CheckedBy: report.ByArithmetic}
}

// checkpointing tells whether something ran under torch.utils.checkpoint.
func (c *Case) checkpointing() bool {
	for i := range c.Origins.Stacks.Len() {
		if c.passes(snapshot.StackID(i), checkpointFile) {
			return true
		}
	}
	return false
}

const checkpointFile = "torch/utils/checkpoint.py"

// checkpointingIneffective: layers run under checkpointing, yet their inner tensors stay. A checkpointed layer leaves its output
// alone; what else stays, line by line and layer by layer, is held by something else, as by a cache of keys and values.
func checkpointingIneffective(c *Case) (report.Finding, bool) {
	var kept, output units.Bytes
	var stacks []snapshot.StackID
	for _, g := range c.forwardGroups() {
		if g.Count < 4 || !c.passes(g.Stack, checkpointFile) {
			continue
		}
		kept += g.Bytes
		if output == 0 || g.Bytes < output {
			output = g.Bytes
		}
		stacks = append(stacks, g.Stack)
	}
	kept -= output
	if len(stacks) < 3 || 5*kept < c.InUse {
		return report.Finding{}, false
	}
	return report.Finding{
		ID: "checkpointing-ineffective", Severity: c.severity(report.Warning), Confidence: 0.85, Bytes: kept, Where: c.places(stacks...),
		Title: fmt.Sprintf("checkpointing is on, but %s from inside the layers stay", kept),
		Evidence: []string{
			fmt.Sprintf("tensors from %s lines inside checkpointed layers are alive for several layers at once; checkpointing would leave one a layer", units.Count(len(stacks))),
			"something refers to them: a cache of keys and values (use_cache), hooks, or outputs that are collected (output_hidden_states)",
		},
		Remedies: []report.Remedy{
			{Action: "model.config.use_cache = False, output_hidden_states=False, no hooks that keep tensors", Saves: kept, CheckedBy: report.ByArithmetic},
			{Action: "gradient_checkpointing_kwargs={\"use_reentrant\": False}; with adapters also model.enable_input_require_grads()", CheckedBy: report.ByRule},
		},
	}, true
}

// share turns a share of the memory into a confidence: half leaves doubt, nine tenths hardly any.
func share(part, whole units.Bytes) float64 {
	if whole <= 0 {
		return 0.5
	}
	p := float64(part) / float64(whole)
	return float64(int(100*min(0.5+p/2, 0.97))) / 100
}

// layers finds how many layers the forward pass has begun: the number of tensors that most of its lines keep, since most
// lines keep one a layer; and what one layer keeps: each line's tensors, as many as it keeps a layer.
func (c *Case) layers() (count int, each units.Bytes) {
	votes := map[int]int{}
	for _, g := range c.forwardGroups() {
		if g.Count > 1 {
			votes[g.Count]++
		}
	}
	for n, v := range votes {
		if v > votes[count] || v == votes[count] && n > count {
			count = n
		}
	}
	if count == 0 {
		return 0, 0
	}
	for _, g := range c.forwardGroups() {
		if g.Count > 1 {
			each += g.Bytes / units.Bytes(g.Count) * units.Bytes((g.Count+count-1)/count)
		}
	}
	return count, each
}

func (c *Case) forwardGroups() []timeline.Group {
	return slices.DeleteFunc(slices.Clone(c.Groups), func(g timeline.Group) bool {
		return g.Category != tape.Activations || c.Origins.Of(g.Stack).Phase != callsite.Forward
	})
}

// checkpointed is what checkpointing every layer would free at this instant: everything but the layer at work and one
// input a layer, taken as the smallest sizeable tensor that layers keep once.
func (c *Case) checkpointed(act units.Bytes) units.Bytes {
	layers, each := c.layers()
	if layers < 2 {
		return 0
	}
	input := each
	for _, g := range c.forwardGroups() {
		if g.Count == layers && 100*g.Largest > each {
			input = min(input, g.Largest)
		}
	}
	return max(0, act-each-units.Bytes(layers)*input)
}

// inputSpike: this batch is larger than any before it.
func inputSpike(c *Case) (report.Finding, bool) {
	if c.OOM == nil || c.OOM.Phase != callsite.Forward && c.OOM.Phase != callsite.Backward {
		return report.Finding{}, false
	}
	ratio, earlier, now, stack := c.spike()
	if ratio < 1.25 {
		return report.Finding{}, false
	}
	if _, trying := exceptionHolds(c); trying {
		return report.Finding{}, false // larger on purpose
	}
	act := c.since(c.lastQuiet(), tape.Activations, tape.Inputs)
	return report.Finding{
		ID: "input-spike", Severity: report.Error, Confidence: 0.85, Bytes: act, Where: c.places(stack, c.OOM.Stack),
		Title: fmt.Sprintf("this batch is %.1f times as large as any before it", ratio),
		Evidence: []string{
			fmt.Sprintf("the same line asked for at most %s in earlier steps and for %s in this one", earlier, now),
			fmt.Sprintf("activations follow: %s so far in this step", act),
		},
		Remedies: []report.Remedy{
			{Action: "cap or bucket the length of samples (truncate, sort by length, batch by tokens)", Saves: act - units.Bytes(float64(act)/ratio), CheckedBy: report.ByArithmetic},
			{Action: "try the longest batch first: it fails in the first minute instead of the tenth hour", CheckedBy: report.ByRule},
			{Action: halve, Saves: act / 2, CheckedBy: report.ByArithmetic},
		},
	}, true
}

// spike compares what each line of the program asked for in the failing step with the most it ever asked for before.
func (c *Case) spike() (ratio float64, earlier, now units.Bytes, stack snapshot.StackID) {
	from := c.lastQuiet()
	before, since := map[snapshot.StackID]units.Bytes{}, map[snapshot.StackID]units.Bytes{}
	for i := range c.OOM.Event {
		e := &c.Tape.Events[i]
		if e.Kind != tape.Alloc || c.Stack[e.ID] == 0 {
			continue
		}
		if p := c.phaseOf(e.ID); p != callsite.Forward && p != callsite.User && p != callsite.Data {
			continue
		}
		most := before
		if i > from {
			most = since
		}
		most[c.Stack[e.ID]] = max(most[c.Stack[e.ID]], e.Size)
	}
	for s, size := range since {
		old := before[s]
		if old < 64*units.KiB {
			continue
		}
		if r := float64(size) / float64(old); r > ratio || r == ratio && s < stack {
			ratio, earlier, now, stack = r, old, size, s
		}
	}
	return ratio, earlier, now, stack
}

// lastQuiet is the event where the failing step began.
func (c *Case) lastQuiet() int { return c.quietBefore(*c.OOM) }

// quietBefore is the event where the step of a failure began: the last step's end, or the last moment after a backward.
func (c *Case) quietBefore(f Failure) int {
	if n := f.Step; n > 0 && n <= len(c.Steps) {
		return c.Steps[n-1]
	}
	sawForward := false
	for i := f.Event - 1; i >= 0; i-- {
		e := &c.Tape.Events[i]
		if e.Kind != tape.Alloc {
			continue
		}
		switch c.phaseOf(e.ID) {
		case callsite.Forward:
			sawForward = true
		case callsite.Backward, callsite.Optimizer:
			if sawForward {
				return i
			}
		}
	}
	return -1
}

// exceptionHolds: the program tries sizes and catches the error. The traceback of a caught exception keeps every
// frame of the failed attempt, and so its tensors, alive until the except block is left. Several failures show it: what the
// first attempt made is still there at the last. Seen from the first failure only the pattern tells: the last call of a
// line is a multiple of the one before, and no optimizer has stepped: a finder of batch sizes does not train.
func exceptionHolds(c *Case) (report.Finding, bool) {
	if f, ok := retriedWhileHeld(c); ok {
		return f, true
	}
	if c.OOM == nil || c.Stepped() || c.By[tape.Optimizer] > 0 {
		return report.Finding{}, false
	}
	ratio, earlier, now, stack := c.spike()
	whole := float64(int(ratio+0.5)) == ratio && int(ratio)&(int(ratio)-1) == 0
	if ratio < 2 || !whole {
		return report.Finding{}, false
	}
	held := c.since(c.lastQuiet(), tape.Activations, tape.Inputs)
	return report.Finding{
		ID: "exception-holds-tensors", Severity: report.Error, Confidence: 0.86, Bytes: held, Where: c.places(stack, c.OOM.Stack),
		Title: "a caught out-of-memory error keeps the failed attempt alive",
		Evidence: []string{
			fmt.Sprintf("the program is trying sizes: the same line asked for %s, then for exactly %d times as much (%s)", earlier, int(ratio), now),
			fmt.Sprintf("the failed attempt holds %s, and its traceback keeps them alive as long as the except block runs: a retry inside it fails too, however small", held),
		},
		Remedies: []report.Remedy{
			{Action: "only set a flag inside except, leave the block, then retry (and call gc.collect())", Saves: held, CheckedBy: report.ByArithmetic},
			{Action: "try each size in a fresh process", Saves: held, CheckedBy: report.ByRule},
		},
	}, true
}

// retriedWhileHeld: a request failed, the program went on, and at the next failure the tensors of the first attempt are still alive.
func retriedWhileHeld(c *Case) (report.Finding, bool) {
	all := c.Failures()
	if len(all) < 2 {
		return report.Finding{}, false
	}
	first, last := all[0], all[len(all)-1]
	from := c.quietBefore(first)
	var held units.Bytes
	for id := len(c.Tape.Initial); id < len(c.Died); id++ {
		temporary := c.Category[id] == tape.Activations || c.Category[id] == tape.Inputs
		if born := int(c.Born[id]); temporary && born > from && born < first.Event && c.Alive(id, last.Event) {
			held += c.Size(id)
		}
	}
	if 4*held < c.InUse {
		return report.Finding{}, false
	}
	return report.Finding{
		ID: "exception-holds-tensors", Severity: report.Error, Confidence: 0.97, Bytes: held, Where: c.places(first.Stack, last.Stack),
		Title: "the caught error keeps the failed attempt alive, so every retry fails",
		Evidence: []string{
			fmt.Sprintf("%d requests failed, from %s down to %s, while %s that the first attempt had made stayed alive", len(all), first.Request, last.Request, held),
			"the traceback of an exception refers to the frames it passed through, and they to their tensors, until the except block is left",
		},
		Remedies: []report.Remedy{
			{Action: "only set a flag inside except, leave the block, then retry (and call gc.collect())", Saves: held, CheckedBy: report.ByArithmetic},
			{Action: "try each size in a fresh process", Saves: held, CheckedBy: report.ByRule},
		},
	}, true
}

// since sums what is alive that was made after an event, of the categories asked for.
func (c *Case) since(event int, of ...tape.Category) units.Bytes {
	var sum units.Bytes
	for id := len(c.Tape.Initial); id < len(c.Died); id++ {
		if int(c.Born[id]) > event && c.Alive(id, c.Instant) && slices.Contains(of, c.Category[id]) {
			sum += c.Size(id)
		}
	}
	return sum
}

// thisStep is what the failing step made of a category: what earlier steps left behind is another matter.
func (c *Case) thisStep(category tape.Category) units.Bytes {
	if n := len(c.Batches); c.OOM.Eval && n > 0 {
		return c.since(c.Batches[n-1], category)
	}
	if n := c.OOM.Step; n > 0 && n <= len(c.Steps) {
		return c.since(c.Steps[n-1], category)
	}
	return c.since(-1, category)
}

// logits: the output over the whole vocabulary, and what the loss makes of it, is a large part.
func logits(c *Case) (report.Finding, bool) {
	var sum units.Bytes
	var stacks []snapshot.StackID
	for _, g := range c.Groups {
		if o := c.Origins.Of(g.Stack); o.Logits && g.Category == tape.Activations {
			sum += g.Bytes
			stacks = append(stacks, g.Stack)
		}
	}
	failing := c.OOM != nil && c.Origins.Of(c.OOM.Stack).Logits
	if failing {
		sum += c.OOM.Request
		stacks = append(stacks, c.OOM.Stack)
	}
	if 4*sum < c.InUse {
		return report.Finding{}, false
	}
	severity := report.Remark
	if failing {
		severity = report.Error
	}
	return report.Finding{
		ID: "logits", Severity: severity, Confidence: 0.9, Bytes: sum, Where: c.places(stacks...),
		Title:    fmt.Sprintf("the logits and their loss take %s", sum),
		Evidence: []string{"cross-entropy holds the logits, their log-probabilities and their gradient at once: 12 to 16 bytes for every token and word of the vocabulary"},
		Remedies: []report.Remedy{
			{Action: "fused or chunked cross-entropy (Liger kernel, or torch's linear_cross_entropy): never holds all logits", Saves: sum * 3 / 4, CheckedBy: report.ByArithmetic},
			{Action: "do not keep outputs.logits beyond the loss: del outputs before backward", Saves: sum / 4, CheckedBy: report.ByArithmetic},
		},
	}, true
}

// attention: scores of every token with every token.
func attention(c *Case) (report.Finding, bool) {
	var sum units.Bytes
	var stacks []snapshot.StackID
	scores := c.scores()
	for _, g := range c.Groups {
		if g.Category == tape.Activations && (c.namedAttention(g.Stack) || scores[c.score(g)]) {
			sum += g.Bytes
			stacks = append(stacks, g.Stack)
		}
	}
	if 3*sum < c.InUse {
		return report.Finding{}, false
	}
	severity := report.Remark
	if c.OOM != nil && (c.Origins.Of(c.OOM.Stack).Attention || c.OOM.Phase == callsite.Forward || c.OOM.Phase == callsite.Backward) {
		severity = report.Error
	}
	return report.Finding{
		ID: "attention-quadratic", Severity: severity, Confidence: 0.85, Bytes: sum, Where: c.places(stacks...),
		Title:    fmt.Sprintf("attention scores take %s: they grow with the square of the sequence", sum),
		Evidence: []string{"the scores of every token with every token are kept for backward in each layer"},
		Remedies: []report.Remedy{
			{Action: `attn_implementation="sdpa" (or F.scaled_dot_product_attention): keeps no scores`, Saves: sum, CheckedBy: report.ByRule},
			{Action: "half the sequence length: a quarter of the scores", Saves: sum * 3 / 4, CheckedBy: report.ByArithmetic},
		},
	}, true
}

// namedAttention tells scores by the names of functions.
func (c *Case) namedAttention(stack snapshot.StackID) bool {
	return c.Origins.Of(stack).Attention && c.innermost(stack, "softmax", "eager_attention_forward", "matmul", "dropout")
}

// score names the kind of tensor a group holds: the function it was made in and its size.
type score struct {
	file, function string
	size           units.Bytes
}

func (c *Case) score(g timeline.Group) score {
	p, _ := c.place(g.Stack)
	return score{p.File, p.Function, g.Largest}
}

// scores finds attention that people wrote themselves: a softmax inside the model, in several layers and not in the loss, and what else the
// same function makes of the same size (the product before it, the mask, the dropout after it).
func (c *Case) scores() map[score]bool {
	found := map[score]bool{}
	for _, g := range c.forwardGroups() {
		if g.Count >= 2 && g.Largest >= units.MiB && !c.Origins.Of(g.Stack).Logits && c.innermost(g.Stack, "softmax") {
			found[c.score(g)] = true
		}
	}
	return found
}
