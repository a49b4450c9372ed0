package diagnose

import (
	"fmt"
	"math"

	"github.com/plimsoll/plimsoll/internal/answer/report"
	"github.com/plimsoll/plimsoll/internal/evidence/callsite"
	"github.com/plimsoll/plimsoll/internal/memory/tape"
	"github.com/plimsoll/plimsoll/internal/memory/timeline"
	"github.com/plimsoll/plimsoll/internal/units"
	"github.com/plimsoll/plimsoll/snapshot"
)

var growthRules = []rule{growth, evalKept, evalGraph}

// minGrowthSteps is how many steps must have left something behind before it is called growth: after the first
// step optimizer state appears, in a plain loop the last step's tensors linger, so fewer prove nothing.
const minGrowthSteps = 4

// growth: memory in use rises by about the same amount every step because something keeps references.
func growth(c *Case) (report.Finding, bool) {
	left, kept, perStep, steps := leftBehind(c, c.Growth, false)
	if kept == 0 || !material(c, kept, perStep) {
		return report.Finding{}, false
	}
	f := report.Finding{
		ID: "growth", Severity: report.Error, Bytes: kept,
		Confidence: growthConfidence(c, steps),
		Title:      fmt.Sprintf("memory grows by %s every step", perStep),
		Where:      growthPlaces(c, left),
	}
	f.Evidence = []string{
		fmt.Sprintf("%s from %s earlier steps were still alive after step %d; a healthy loop keeps none", kept, units.Count(steps), c.StepOf(c.Growth[0].Event)+1),
	}
	if graphKept(c, left) {
		f.Evidence = append(f.Evidence, "several tensors of each forward pass survive together: the autograd graph is kept, as when losses or outputs are stored without detach()")
		f.Remedies = append(f.Remedies, report.Remedy{Action: "store loss.item() (or out.detach().cpu()), not the tensor with its graph", Saves: kept, CheckedBy: report.ByArithmetic})
	} else {
		f.Evidence = append(f.Evidence, "one kind of tensor survives, not the whole graph: results are collected on the GPU")
		f.Remedies = append(f.Remedies, report.Remedy{Action: "move what you keep to the CPU: results.append(out.detach().cpu())", Saves: kept, CheckedBy: report.ByArithmetic})
	}
	f.Evidence = append(f.Evidence, "a smaller batch only delays it; empty_cache() cannot free what is referenced")
	return f, true
}

// leftBehind picks what steps leave behind that is not meant to stay, and sums it.
func leftBehind(c *Case, all []timeline.Growth, eval bool) (left []timeline.Growth, kept, perStep units.Bytes, steps int) {
	for _, g := range all {
		if c.Origins.Of(g.Stack).Eval != eval || !grows(g) || c.passes(g.Stack, "cache_utils.py") { // a cache of keys and values grows by design
			continue
		}
		left = append(left, g)
		kept += g.Bytes
		perStep += g.PerStep
		steps = max(steps, g.Steps)
	}
	return left, kept, perStep, steps
}

// grows leaves out what is meant to stay: parameters and optimizer state appear over the first steps only.
func grows(g timeline.Growth) bool {
	return g.Category != tape.Parameters && g.Category != tape.Optimizer && g.Category != tape.Workspace
}

// material tells growth that matters from a few bytes of bookkeeping: a hundredth of what is in use, or a limit reached
// within a hundred thousand steps.
func material(c *Case, kept, perStep units.Bytes) bool {
	return 100*kept >= c.InUse || perStep >= 64*units.KiB
}

func growthConfidence(c *Case, steps int) float64 {
	sure := 1 - 1/math.Sqrt(float64(steps)*4)
	if c.StepsFrom == "repetition" {
		sure -= 0.15
	}
	return math.Round(100*min(sure, 0.99)) / 100
}

func growthPlaces(c *Case, left []timeline.Growth) []report.Place {
	var stacks []snapshot.StackID
	for _, g := range left {
		stacks = append(stacks, g.Stack)
	}
	return c.loopPlaces(stacks...)
}

// graphKept tells whether whole graphs survive: tensors from several lines, among them activations inside modules that no
// user code can name.
func graphKept(c *Case, left []timeline.Growth) bool {
	lines, modules := 0, 0
	for _, g := range left {
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

// evalKept: batches of evaluation leave something behind.
func evalKept(c *Case) (report.Finding, bool) {
	left, kept, perStep, steps := leftBehind(c, c.EvalGrowth, !c.Unnamed)
	if kept == 0 {
		left, kept, perStep, steps = leftBehind(c, c.Growth, true)
	}
	if kept == 0 || !material(c, kept, perStep) {
		return report.Finding{}, false
	}
	f := report.Finding{
		ID: "eval-outputs-kept", Severity: c.severity(report.Warning), Bytes: kept, Confidence: growthConfidence(c, steps),
		Title: fmt.Sprintf("evaluation keeps %s a batch on the GPU", perStep),
		Where: growthPlaces(c, left),
		Evidence: []string{
			fmt.Sprintf("%s from %s evaluation batches were alive at once", kept, units.Count(steps)),
			"one kind of tensor survives, not the whole graph: outputs are collected on the card",
			"a smaller training batch changes nothing here, and a smaller evaluation batch keeps just as much in the end",
		},
		Remedies: []report.Remedy{{Action: "collect outputs on the CPU: outputs.append(out.detach().cpu()); with Trainer: eval_accumulation_steps=8", Saves: kept, CheckedBy: report.ByArithmetic}},
	}
	if graphKept(c, left) {
		f.ID = "eval-graph-kept"
		f.Title = fmt.Sprintf("evaluation keeps autograd graphs, %s a batch", perStep)
		f.Evidence[1] = "tensors from inside the modules survive together with their outputs: autograd is on, and something refers to the results"
		f.Remedies = append([]report.Remedy{{Action: "run evaluation under torch.inference_mode() (or torch.no_grad())", Saves: kept, CheckedBy: report.ByArithmetic}}, f.Remedies...)
	}
	return f, true
}

// evalGraph: a single batch of evaluation keeps what only backward needs. Without a graph a layer's tensors go as soon as the next
// has used them: two of one line are alive only where a layer hands over to the next. A cache of keys and values has two
// lines with many, a graph has them all.
func evalGraph(c *Case) (report.Finding, bool) {
	if c.OOM == nil || !c.OOM.Eval || c.OOM.Phase != callsite.Forward {
		return report.Finding{}, false
	}
	if _, kept, _, _ := leftBehind(c, c.EvalGrowth, !c.Unnamed); kept > 0 {
		return report.Finding{}, false // told by evalKept
	}
	var kept units.Bytes
	lines, layers := 0, 0
	for _, g := range c.forwardGroups() {
		if g.Count >= 2 && c.Origins.Of(g.Stack).Eval && !c.passes(g.Stack, "cache_utils.py") {
			lines++
			kept += g.Bytes
			layers = max(layers, g.Count)
		}
	}
	if lines < 3 || 10*kept < c.InUse {
		return report.Finding{}, false
	}
	confidence := 0.78
	if layers >= 4 {
		confidence = 0.9
	}
	return report.Finding{
		ID: "eval-graph-kept", Severity: report.Error, Confidence: confidence, Bytes: kept, Where: c.loopPlaces(c.OOM.Stack),
		Title: "evaluation records an autograd graph that nobody will use",
		Evidence: []string{
			fmt.Sprintf("%s of activations from %s lines of the model were alive, for %d layers at once: without a graph they go as the next layer runs", kept, units.Count(lines), layers),
			"model.eval() does not switch autograd off; it only changes dropout and batch norm",
		},
		Remedies: []report.Remedy{
			{Action: "run evaluation under torch.inference_mode() (or torch.no_grad())", Saves: kept, CheckedBy: report.ByArithmetic},
			{Action: "a smaller evaluation batch", Saves: kept / 2, CheckedBy: report.ByArithmetic},
		},
	}, true
}
