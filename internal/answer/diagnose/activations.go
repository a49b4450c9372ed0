package diagnose

import (
	"fmt"
	"slices"
	"strings"

	"github.com/plimsoll/plimsoll/internal/answer/report"
	"github.com/plimsoll/plimsoll/internal/evidence/callsite"
	"github.com/plimsoll/plimsoll/internal/memory/tape"
	"github.com/plimsoll/plimsoll/internal/memory/timeline"
	"github.com/plimsoll/plimsoll/internal/units"
	"github.com/plimsoll/plimsoll/snapshot"
)

var activationRules = []rule{exceptionHolds, inputSpike, logits, attention, oneLargeTensor, evalBatch, checkpointingIneffective, outsideCheckpoints, recomputed, activations}

// activations: the graph of the forward pass is most of what is in use.
func activations(c *Case) (claim, bool) {
	if c.OOM == nil || c.OOM.Phase == callsite.Load || c.OOM.Eval {
		return claim{}, false
	}
	act := c.thisStep(tape.Activations)
	if c.OOM.Step > 0 {
		act += c.thisStep(tape.Inputs) // in the first step they may be a data set
	}
	if 2*act < c.InUse {
		return claim{}, false
	}
	f := report.Finding{
		ID: "activations-dominate", Severity: report.Error, Confidence: min(0.9, share(act, c.InUse)), Bytes: act, Where: c.failurePlace(),
		Title: "activations dominate: the batch is too large for this card",
	}
	f.Evidence = []string{fmt.Sprintf("%s of %s in use are activations of this step, which shrink with the batch", act, c.InUse)}
	if layers, each := c.layers(); layers > 1 && !c.Origins.Of(c.OOM.Stack).Compiled {
		f.Evidence = append(f.Evidence, c.reached(layers, each))
	}
	if unused := c.OOM.Held - c.InUse; 20*unused < c.OOM.Held {
		f.Evidence = append(f.Evidence, notFragmentation(unused))
	}
	half, ch := c.smallerBatch(act)
	out := claim{Finding: f, kind: normal, without: c.batchScaled(0.5)}
	out.remedy(half, ch)
	if c.checkpointing() {
		out.Evidence = append(out.Evidence, "activation checkpointing is on already")
	} else {
		saves, each := c.checkpointed(act)
		out.remedy(saving(saves, "activation checkpointing: model.gradient_checkpointing_enable() or torch.utils.checkpoint, about a third more time"), change{saves: saves, coming: each})
	}
	out.remedy(report.Remedy{Action: `torch.autocast("cuda", dtype=torch.bfloat16) around forward and loss`, CheckedBy: report.ByRule, Numerics: true}, change{})
	return out, true
}

// reached says how far the forward pass had come.
func (c *Case) reached(layers int, each units.Bytes) string {
	text := fmt.Sprintf("the forward pass keeps about %s per layer for backward, and was in layer %d", each, layers)
	if total := c.modelLayers(); total > layers && c.OOM.Phase == callsite.Forward {
		text += fmt.Sprintf(" of %d", total)
	}
	return text
}

// evalBatch: one batch of evaluation does not fit, although nothing of it is kept for a backward pass.
func evalBatch(c *Case) (claim, bool) {
	if c.OOM == nil || !c.OOM.Eval || c.OOM.Phase != callsite.Forward && c.OOM.Phase != callsite.User {
		return claim{}, false
	}
	if _, told := evalKept(c); told {
		return claim{}, false
	}
	if _, told := evalGraph(c); told {
		return claim{}, false
	}
	if _, told := joined(c); told {
		return claim{}, false
	}
	if _, told := heldByName(c); told {
		return claim{}, false
	}
	act := c.thisStep(tape.Activations) + c.thisStep(tape.Inputs)
	if 4*(act+c.OOM.Request) < c.InUse {
		return claim{}, false
	}
	half := c.batchScaled(0.5)
	f := claim{without: half, Finding: report.Finding{
		ID: "eval-batch-too-large", Severity: report.Error, Confidence: 0.85, Bytes: act + c.OOM.Request, Where: c.evalPlaces(),
		Title: "the evaluation batch is too large for this card",
		Evidence: []string{
			fmt.Sprintf("one evaluation batch takes %s and requested %s more; nothing of it is kept for backward", act, c.OOM.Request),
			"training fitted, so the evaluation batch, or its sequences or images, are larger than those of training",
		},
	}}
	f.remedy(saving((act+c.OOM.Request)/2, "halve the evaluation batch: results do not depend on it"), half)
	f.remedy(report.Remedy{Action: "torch.inference_mode() around evaluation, if it is not there yet", CheckedBy: report.ByRule}, change{})
	return f, true
}

// evalPlaces are the lines of the failing call of evaluation.
func (c *Case) evalPlaces() []report.Place {
	if places := c.loopPlaces(c.OOM.Stack); len(places) > 0 {
		return places
	}
	return c.failurePlace()
}

// notFragmentation refutes what PyTorch's message advises every time.
func notFragmentation(unused units.Bytes) string {
	if unused <= 0 {
		return "not fragmentation, although the message suggests it: everything PyTorch reserved is in use"
	}
	return fmt.Sprintf("not fragmentation, although the message suggests it: only %s is reserved but unused", unused)
}

// halve is the remedy that costs nothing but a line.
const halve = "halve the micro-batch and accumulate over two"

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
// alone; what else stays, line by line and layer by layer, is held by something else, as by a KV cache.
func checkpointingIneffective(c *Case) (claim, bool) {
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
		return claim{}, false
	}
	undo := change{never: c.inside(stacks)}
	return claim{without: undo, tries: []change{undo}, Finding: report.Finding{
		ID: "checkpointing-ineffective", Severity: c.severity(report.Warning), Confidence: 0.85, Bytes: kept, Where: c.places(stacks...),
		Title: fmt.Sprintf("checkpointing is on, but %s from inside the layers stays in memory", kept),
		Evidence: []string{
			fmt.Sprintf("tensors from %s lines inside checkpointed layers are alive for several layers at once; checkpointing would leave one per layer", units.Count(len(stacks))),
			"something keeps them alive: the KV cache (use_cache), hooks, or collected outputs (output_hidden_states)",
		},
		Remedies: []report.Remedy{
			{Action: "model.config.use_cache = False, output_hidden_states=False, no hooks that keep tensors", Saves: kept, CheckedBy: report.ByArithmetic},
			{Action: "gradient_checkpointing_kwargs={\"use_reentrant\": False}; with adapters also model.enable_input_require_grads()", CheckedBy: report.ByRule},
		},
	}}, true
}

// recomputed: checkpointing is on, and the backward pass holds what it recomputes of many layers at once: the stretch between two checkpoints is too long.
func recomputed(c *Case) (claim, bool) {
	if c.OOM == nil || c.OOM.Phase != callsite.Backward {
		return claim{}, false
	}
	ids, sum := c.aliveWhere(func(id int) bool {
		return c.Phase[id] == callsite.Backward && c.Origins.Of(c.Stack[id]).Recompute && c.Category[id] != tape.Gradients
	})
	if 2*sum < c.InUse {
		return claim{}, false
	}
	most := map[snapshot.StackID]int{}
	layers := 0
	var stacks []snapshot.StackID
	for _, id := range ids {
		if most[c.Stack[id]]++; most[c.Stack[id]] == 1 {
			stacks = append(stacks, c.Stack[id])
		}
		layers = max(layers, most[c.Stack[id]])
	}
	if layers < 3 {
		return claim{}, false
	}
	undo := change{saves: sum - sum/units.Bytes(layers)}
	f := claim{without: undo, Finding: report.Finding{
		ID: "checkpointing-ineffective", Severity: report.Error, Confidence: 0.88, Bytes: sum, Where: append(c.checkpointPlaces(stacks[0]), c.places(stacks...)...),
		Title: fmt.Sprintf("the backward pass recomputes many layers at once: %s", sum),
		Evidence: []string{
			fmt.Sprintf("%s of %s in use were recomputed from one checkpoint, several tensors of each line: one checkpoint spans many layers", sum, c.InUse),
			"a checkpoint frees what is computed between it and the next one; around the whole model it only moves the peak from the forward to the backward pass",
		},
	}}
	f.remedy(saving(undo.saves, "checkpoint every layer on its own: x = checkpoint(layer, x, use_reentrant=False) inside the loop over layers"), undo)
	return f, true
}

// checkpointPlaces is the line that called checkpoint() for a recomputed tensor: the first of the user's outside the recomputation in the forward pass.
func (c *Case) checkpointPlaces(stack snapshot.StackID) []report.Place {
	for id := range c.Died {
		s := c.Stack[id]
		if c.Phase[id] != callsite.Forward || !c.passes(s, checkpointFile) {
			continue
		}
		if at := c.checkpointCall(s); len(at) > 0 {
			return at
		}
	}
	return nil
}

// checkpointCall is the line that called checkpoint() in a stack.
func (c *Case) checkpointCall(stack snapshot.StackID) []report.Place {
	inside := false
	for _, f := range c.Origins.Stacks.Stack(stack) {
		frame := c.Origins.Stacks.Frames[f]
		inside = inside || strings.Contains(frame.File, checkpointFile)
		if inside && c.Origins.IsUser(f) {
			return []report.Place{{File: frame.File, Line: frame.Line, Function: frame.Function}}
		}
	}
	return nil
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
// input a layer, taken as the smallest sizeable tensor that layers keep once. share is what a checkpointed layer keeps of what it kept.
func (c *Case) checkpointed(act units.Bytes) (saves units.Bytes, share float64) {
	layers, each := c.layers()
	if layers < 2 || each == 0 {
		return 0, 0
	}
	input := each
	for _, g := range c.forwardGroups() {
		if g.Count == layers && 100*g.Largest > each {
			input = min(input, g.Largest)
		}
	}
	return max(0, act-each-units.Bytes(layers)*input), float64(input) / float64(each)
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

// sinceBlocks lists the activations and inputs alive that were made after an event.
func (c *Case) sinceBlocks(event int) ([]int, units.Bytes) {
	return c.aliveWhere(func(id int) bool {
		return id >= len(c.Tape.Initial) && int(c.Born[id]) > event && (c.Category[id] == tape.Activations || c.Category[id] == tape.Inputs)
	})
}

// thisStep is what the failing step made of a category: what earlier steps left behind is another matter.
func (c *Case) thisStep(category tape.Category) units.Bytes { return c.since(c.stepBegin(), category) }
