package diagnose

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/plimsoll/plimsoll/internal/answer/report"
	"github.com/plimsoll/plimsoll/internal/evidence/callsite"
	"github.com/plimsoll/plimsoll/internal/memory/tape"
	"github.com/plimsoll/plimsoll/internal/memory/timeline"
	"github.com/plimsoll/plimsoll/internal/units"
	"github.com/plimsoll/plimsoll/snapshot"
)

var growthRules = []rule{growth, evalKept, evalGraph, exceptionFrames, heldByName, unreachable, joined, lengthening}

// minGrowthSteps is how many steps must have left something behind before it is called growth: after the first
// step optimizer state appears, in a plain loop the last step's tensors linger, so fewer prove little. Where what is left takes a fifth of the memory in use,
// fewGrowthSteps do; so few a batch of evaluation needs as well, which has no reason to leave anything.
const (
	minGrowthSteps = 4
	fewGrowthSteps = 2
)

// left is what steps or batches leave behind.
type left struct {
	groups  []timeline.Growth
	bytes   units.Bytes
	perStep units.Bytes
	steps   int
	blocks  []int
}

// leftBehind picks what steps leave behind that is not meant to stay.
func leftBehind(c *Case, all []timeline.Growth, keep func(snapshot.StackID) bool) left {
	var l left
	for _, g := range all {
		if !keep(g.Stack) || !grows(g) || c.passes(g.Stack, "cache_utils.py") || c.Unnamed && c.castsOfWeights(g.Blocks) { // a KV cache grows by design
			continue
		}
		l.groups = append(l.groups, g)
		l.bytes += g.Bytes
		l.perStep += g.PerStep
		l.steps = max(l.steps, g.Steps)
		l.blocks = append(l.blocks, g.Blocks...)
	}
	return l
}

// material tells growth that matters from a few bytes of bookkeeping: a hundredth of what is in use, or 64 KiB a step; with few steps, a fifth.
func (l *left) material(c *Case) bool {
	if l.steps < minGrowthSteps {
		return l.steps >= fewGrowthSteps && 5*l.bytes >= c.InUse
	}
	return l.bytes > 0 && (100*l.bytes >= c.InUse || l.perStep >= 64*units.KiB)
}

// grows leaves out what is meant to stay: parameters and optimizer state appear over the first steps only.
func grows(g timeline.Growth) bool {
	return g.Category != tape.Parameters && g.Category != tape.Optimizer && g.Category != tape.Workspace
}

// castsOfWeights tells copies of parameters in 16 bits, which autocast makes once for each layer and keeps until it ends.
func (c *Case) castsOfWeights(blocks []int) bool {
	halves := map[units.Bytes]bool{}
	for id := range c.Category {
		if c.Category[id] == tape.Parameters {
			halves[c.Size(id)/2] = true
		}
	}
	casts := 0
	for _, id := range blocks {
		if halves[c.Size(id)] {
			casts++
		}
	}
	return len(halves) > 0 && 10*casts >= 9*len(blocks)
}

// growth: memory in use rises by about the same amount every step because something keeps references.
func growth(c *Case) (claim, bool) {
	l := leftBehind(c, c.Growth, func(s snapshot.StackID) bool { return !c.IsEval(s) })
	if !l.material(c) || c.raisedHere(l.blocks) {
		return claim{}, false
	}
	f := report.Finding{
		ID: "growth", Severity: c.severity(report.Warning), Bytes: l.bytes,
		Confidence: growthConfidence(c, l.steps),
		Title:      fmt.Sprintf("memory grows by %s every step", l.perStep),
		Where:      growthPlaces(c, l.groups),
	}
	f.Evidence = []string{
		fmt.Sprintf("%s from %s earlier steps were still alive after step %d; a healthy loop keeps none", l.bytes, units.Count(l.steps), c.StepOf(c.Growth[0].Event)+1),
	}
	if graphKept(c, l.groups) {
		f.Evidence = append(f.Evidence, "several tensors of each forward pass survive together: the autograd graph is kept, as when losses or outputs are stored without detach()")
		f.Remedies = append(f.Remedies, report.Remedy{Action: "store loss.item() (or out.detach().cpu()), not the tensor with its graph", Saves: l.bytes, CheckedBy: report.ByArithmetic})
	} else {
		f.Evidence = append(f.Evidence, "one kind of tensor survives, not the whole graph: results are collected on the GPU")
		f.Remedies = append(f.Remedies, report.Remedy{Action: "move what you keep to the CPU: results.append(out.detach().cpu())", Saves: l.bytes, CheckedBy: report.ByArithmetic})
	}
	f.Evidence = append(f.Evidence, "a smaller batch only delays it; empty_cache() cannot free what is referenced")
	undo := change{never: l.blocks}
	return claim{Finding: f, without: undo, tries: []change{undo}}, true
}

func growthConfidence(c *Case, steps int) float64 {
	sure := 1 - 1/math.Sqrt(float64(steps)*4)
	if c.StepsFrom == "repetition" {
		sure -= 0.1
	}
	return math.Round(100*min(sure, 0.99)) / 100
}

func growthPlaces(c *Case, groups []timeline.Growth) []report.Place {
	var stacks []snapshot.StackID
	for _, g := range groups {
		stacks = append(stacks, g.Stack)
	}
	return c.loopPlaces(stacks...)
}

// graphKept tells whether whole graphs survive: tensors from several lines, among them activations inside modules that no
// user code can name.
func graphKept(c *Case, groups []timeline.Growth) bool {
	lines, modules := 0, 0
	for _, g := range groups {
		switch c.Origins.Of(g.Stack).Phase {
		case callsite.Forward:
			lines++
			modules++
		case callsite.User:
			lines++
		}
	}
	return lines >= 2 && modules > 0
}

// evalKept: batches of evaluation, or rounds of a loop that never trains, leave something behind.
func evalKept(c *Case) (claim, bool) {
	inEval := func(s snapshot.StackID) bool { return c.Unnamed || c.IsEval(s) }
	l := leftBehind(c, c.EvalGrowth, inEval)
	if !l.material(c) {
		l = leftBehind(c, c.Growth, c.IsEval)
	}
	if !l.material(c) || c.raisedHere(l.blocks) {
		return claim{}, false
	}
	undo := change{never: l.blocks}
	f := report.Finding{
		ID: "eval-outputs-kept", Severity: c.severity(report.Warning), Bytes: l.bytes, Confidence: growthConfidence(c, l.steps),
		Title: fmt.Sprintf("evaluation keeps %s per batch on the GPU", l.perStep),
		Where: growthPlaces(c, l.groups),
		Evidence: []string{
			fmt.Sprintf("%s from %s evaluation batches were alive at once", l.bytes, units.Count(l.steps)),
			"one kind of tensor survives, not the whole graph: outputs are collected on the card",
			"a smaller training batch changes nothing here, and a smaller evaluation batch keeps just as much in the end",
		},
		Remedies: []report.Remedy{{Action: "collect outputs on the CPU: outputs.append(out.detach().cpu()); with Trainer: eval_accumulation_steps=8", Saves: l.bytes, CheckedBy: report.ByArithmetic}},
	}
	if graphKept(c, l.groups) {
		f.ID = "eval-graph-kept"
		f.Title = fmt.Sprintf("evaluation keeps autograd graphs, %s per batch", l.perStep)
		f.Evidence[1] = "tensors from inside the modules survive together with their outputs: autograd is on, and something refers to the results"
		f.Remedies = append([]report.Remedy{{Action: "run evaluation under torch.inference_mode() (or torch.no_grad())", Saves: l.bytes, CheckedBy: report.ByArithmetic}}, f.Remedies...)
		switch {
		case c.generates(l.groups):
			keptInGeneration(&f, l)
		case c.beforeTraining(l):
			keptBeforeBackward(&f, l)
		}
	}
	return claim{Finding: f, without: undo, tries: []change{undo, undo}[:len(f.Remedies)]}, true
}

// beforeTraining tells a loop that need not be evaluation: no function's name says so, no backward pass was seen yet in a history that reaches back to the start, and each round ends in a
// single number, as a loss is.
func (c *Case) beforeTraining(l left) bool {
	if !c.Unnamed || !c.Complete || slices.Contains(c.Phase, callsite.Backward) {
		return false
	}
	const number = 8 // bytes
	rounds, scalar := 0, false
	for i := range c.Tape.Events {
		e := &c.Tape.Events[i]
		if e.Kind != tape.Alloc {
			continue
		}
		switch c.Phase[e.ID] {
		case callsite.User:
			scalar = scalar || e.Size <= number
		case callsite.Forward:
			rounds += one(scalar)
			scalar = false
		}
	}
	return rounds >= l.steps
}

// keptBeforeBackward words the finding for rounds of a training loop that has not come to its backward pass: losses are summed, or kept, over many batches.
func keptBeforeBackward(f *report.Finding, l left) {
	f.ID = "growth"
	f.Title = fmt.Sprintf("every round keeps its autograd graph, %s each, and no backward pass frees it", l.perStep)
	f.Evidence = []string{
		fmt.Sprintf("%s from %s rounds were alive at once, and no backward pass has run", l.bytes, units.Count(l.steps)),
		"each round ends in one number, as a loss does: a sum of losses, or a list of them, keeps the graph of every round until backward() has run",
		"a smaller batch only delays it",
	}
	f.Remedies = []report.Remedy{
		{Action: "call backward() for each micro-batch, (loss / n).backward(), and step once: gradients add up, graphs do not", Saves: l.bytes, CheckedBy: report.ByArithmetic},
		{Action: "if nothing is trained here: torch.inference_mode() around the loop", Saves: l.bytes, CheckedBy: report.ByArithmetic},
	}
}

// keptInGeneration words the finding for a loop that generates: every token's graph hangs from the next one's input.
func keptInGeneration(f *report.Finding, l left) {
	f.ID = "graph-kept-in-generation"
	f.Title = fmt.Sprintf("generation keeps the autograd graph of every token, %s each", l.perStep)
	f.Evidence = []string{
		fmt.Sprintf("%s from %s iterations of the generation loop were alive at once", l.bytes, units.Count(l.steps)),
		"tensors from inside the model survive from iteration to iteration: autograd is on, and each iteration's input or cache refers to the graph of the one before",
		"a smaller batch or a shorter prompt only delays it",
	}
	f.Remedies = []report.Remedy{
		{Action: "generate under torch.inference_mode() (or torch.no_grad())", Saves: l.bytes, CheckedBy: report.ByArithmetic},
		{Action: "detach what goes into the next iteration: token.detach(), cache tensors, the log-probabilities you keep", Saves: l.bytes, CheckedBy: report.ByArithmetic},
	}
}

// generating are words in the names of functions that produce a sequence token by token.
var generating = []string{"generate", "sample", "decode", "greedy", "beam", "rollout", "autoregress", "next_token", "complete"}

// generates tells a loop that generates: its function says so.
func (c *Case) generates(groups []timeline.Growth) bool {
	for _, g := range groups {
		for _, id := range c.Origins.Stacks.Stack(g.Stack) {
			if namesGeneration(c.Origins.Stacks.Frames[id].Function) {
				return true
			}
		}
	}
	return false
}

// ofActivation tells the result of an activation function, a dropout or a norm: nobody collects those, so that several of one line are alive only for backward.
func (c *Case) ofActivation(stack snapshot.StackID) bool {
	for _, id := range c.Origins.Stacks.Stack(stack) {
		f := &c.Origins.Stacks.Frames[id]
		for _, name := range []string{"activation.py", "dropout.py", "normalization.py", "batchnorm.py"} {
			if strings.HasSuffix(f.File, "/nn/modules/"+name) && f.Function == "forward" {
				return true
			}
		}
		if c.Origins.IsUser(id) {
			return false
		}
	}
	return false
}

// evalGraph: a single batch of evaluation keeps what only backward needs. Without a graph a layer's tensors go as soon as the next
// has used them: two of one line are alive only where a layer hands over to the next. A KV cache has two
// lines with many, a graph has them all.
func evalGraph(c *Case) (claim, bool) {
	if c.OOM == nil || !c.OOM.Eval || c.OOM.Phase != callsite.Forward {
		return claim{}, false
	}
	if _, told := evalKept(c); told {
		return claim{}, false
	}
	var kept units.Bytes
	lines, layers, functions := 0, 0, false
	inGraph := map[snapshot.StackID]bool{}
	for _, g := range c.forwardGroups() {
		if g.Count >= 2 && c.IsEval(g.Stack) && !c.passes(g.Stack, "cache_utils.py") {
			lines++
			kept += g.Bytes
			layers = max(layers, g.Count)
			inGraph[g.Stack] = true
			functions = functions || g.Largest*units.Bytes(g.Count) == g.Bytes && c.ofActivation(g.Stack)
		}
	}
	if lines < 3 && !functions || 10*kept < c.InUse {
		return claim{}, false
	}
	confidence := 0.78
	if layers >= 4 {
		confidence = 0.9
	}
	blocks, _ := c.aliveWhere(func(id int) bool { return inGraph[c.Stack[id]] && c.Category[id] == tape.Activations })
	undo := change{never: blocks, coming: nothingMore}
	return claim{without: undo, tries: []change{undo}, Finding: report.Finding{
		ID: "eval-graph-kept", Severity: report.Error, Confidence: confidence, Bytes: kept, Where: c.loopPlaces(c.OOM.Stack),
		Title: "evaluation records an autograd graph that nothing uses",
		Evidence: []string{
			fmt.Sprintf("%s of activations from %s lines of the model were alive, for %d layers at once: without a graph they are freed as the next layer runs", kept, units.Count(lines), layers),
			"model.eval() does not switch autograd off; it only changes dropout and batch norm",
		},
		Remedies: []report.Remedy{
			{Action: "run evaluation under torch.inference_mode() (or torch.no_grad())", Saves: kept, CheckedBy: report.ByArithmetic},
			{Action: "a smaller evaluation batch", Saves: kept / 2, CheckedBy: report.ByArithmetic},
		},
	}}, true
}
