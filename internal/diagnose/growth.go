package diagnose

import (
	"fmt"
	"math"

	"github.com/plimsoll/plimsoll/internal/origin"
	"github.com/plimsoll/plimsoll/internal/report"
	"github.com/plimsoll/plimsoll/internal/tape"
	"github.com/plimsoll/plimsoll/internal/timeline"
	"github.com/plimsoll/plimsoll/internal/units"
	"github.com/plimsoll/plimsoll/snapshot"
)

// minGrowthSteps is how many steps must have left something behind before it is called growth: after the first
// step optimizer state appears, in a plain loop the last step's tensors linger, so fewer prove nothing.
const minGrowthSteps = 4

// growth: memory in use rises by about the same amount every step because something keeps references.
func growth(c *Case) (report.Finding, bool) {
	kept, perStep, steps := leftBehind(c, false)
	if kept == 0 || !material(c, kept, perStep) {
		return report.Finding{}, false
	}
	graph := graphKept(c)
	f := report.Finding{
		ID: "growth", Severity: report.Error, Bytes: kept,
		Confidence: growthConfidence(c, steps),
		Title:      fmt.Sprintf("memory grows by %s every step", perStep),
		Where:      growthPlaces(c, false),
		Refuted:    "memory in use at the end of a step that stops rising in a longer recording",
	}
	f.Evidence = []string{
		fmt.Sprintf("%s from %s earlier steps were still alive after step %d; a healthy loop keeps none", kept, units.Count(steps), c.StepOf(c.Growth[0].Event)+1),
	}
	if graph {
		f.Evidence = append(f.Evidence, "several tensors of each forward pass survive together: the autograd graph is kept, as when losses or outputs are stored without detach()")
		f.Remedies = append(f.Remedies, report.Remedy{Action: "store loss.item() (or out.detach().cpu()), not the tensor with its graph", Saves: kept, CheckedBy: report.ByArithmetic})
	} else {
		f.Evidence = append(f.Evidence, "one kind of tensor survives, not the whole graph: results are collected on the GPU")
		f.Remedies = append(f.Remedies, report.Remedy{Action: "move what you keep to the CPU: results.append(out.detach().cpu())", Saves: kept, CheckedBy: report.ByArithmetic})
	}
	f.Evidence = append(f.Evidence, "a smaller batch only delays it; empty_cache() cannot free what is referenced")
	return f, true
}

// leftBehind sums what the steps of training, or of evaluation, leave behind.
func leftBehind(c *Case, eval bool) (kept, perStep units.Bytes, steps int) {
	for _, g := range c.Growth {
		if c.Origins.Of(g.Stack).Eval != eval || !grows(g) {
			continue
		}
		kept += g.Bytes
		perStep += g.PerStep
		steps = max(steps, g.Steps)
	}
	return kept, perStep, steps
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

func growthPlaces(c *Case, eval bool) []report.Place {
	var stacks []snapshot.StackID
	for _, g := range c.Growth {
		if grows(g) && c.Origins.Of(g.Stack).Eval == eval {
			stacks = append(stacks, g.Stack)
		}
	}
	return c.places(stacks...)
}

// graphKept tells whether whole graphs survive: tensors from several lines of the forward pass, among them activations
// inside modules that no user code can name.
func graphKept(c *Case) bool {
	inner := 0
	for _, g := range c.Growth {
		o := c.Origins.Of(g.Stack)
		if grows(g) && (o.Phase == origin.Forward || o.Phase == origin.User) {
			inner++
		}
	}
	return inner >= 2
}

// evalKept: the same inside evaluation.
func evalKept(c *Case) (report.Finding, bool) {
	kept, perStep, steps := leftBehind(c, true)
	if kept == 0 || !material(c, kept, perStep) {
		return report.Finding{}, false
	}
	f := report.Finding{
		ID: "eval-outputs-kept", Severity: c.severity(report.Warning), Bytes: kept, Confidence: growthConfidence(c, steps),
		Title:    fmt.Sprintf("evaluation keeps %s a batch on the GPU", perStep),
		Where:    growthPlaces(c, true),
		Evidence: []string{fmt.Sprintf("%s from %s evaluation batches were alive at once", kept, units.Count(steps))},
		Refuted:  "a recording in which evaluation holds no more after its last batch than after its second",
		Remedies: []report.Remedy{{Action: "collect outputs on the CPU: outputs.append(out.detach().cpu())", Saves: kept, CheckedBy: report.ByArithmetic}},
	}
	if graphKept(c) {
		f.ID = "eval-graph-kept"
		f.Title = fmt.Sprintf("evaluation keeps autograd graphs, %s a batch", perStep)
		f.Remedies = append([]report.Remedy{{Action: "run evaluation under torch.inference_mode()", Saves: kept, CheckedBy: report.ByArithmetic}}, f.Remedies...)
	}
	return f, true
}
