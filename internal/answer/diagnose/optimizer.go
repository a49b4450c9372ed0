package diagnose

import (
	"fmt"

	"github.com/plimsoll/plimsoll/internal/answer/report"
	"github.com/plimsoll/plimsoll/internal/evidence/callsite"
	"github.com/plimsoll/plimsoll/internal/memory/tape"
	"github.com/plimsoll/plimsoll/internal/units"
)

var optimizerRules = []rule{optimizerFirstStep, optimizerTemporaries, secondStep}

// optimizerFirstStep: forward and backward fitted, the optimizer's state, which PyTorch creates in the first
// step(), does not (torch/optim/adam.py, _init_group).
func optimizerFirstStep(c *Case) (claim, bool) {
	if c.OOM == nil || !c.creatingState() {
		return claim{}, false
	}
	state := c.stateToCome(c.By[tape.Gradients])
	fixed := c.By[tape.Parameters] - c.loadedBytes() + c.By[tape.Gradients] + state
	batch := "forward and backward fitted because it did not exist yet; it stays for the rest of the run, so every later step needs it too"
	if fixed > c.OOM.Limit.Bytes {
		batch = fmt.Sprintf("with parameters and gradients that is %s of the %s available: a smaller batch cannot help", fixed, c.OOM.Limit.Bytes)
	}
	return claim{kind: normal, tries: []change{{saves: state * 3 / 4}, {saves: state / 2}}, Finding: report.Finding{
		ID: "optimizer-state-first-step", Severity: report.Error, Confidence: 0.97, Bytes: state, Where: c.failurePlace(),
		Title: "the optimizer's state does not fit",
		Evidence: []string{
			fmt.Sprintf("the first optimizer.step() was creating its state: %s so far, %s in all", c.By[tape.Optimizer], state),
			batch,
		},
		Remedies: []report.Remedy{
			{Action: "8-bit Adam (bitsandbytes.optim.AdamW8bit): 2.03 bytes per parameter instead of 8", Saves: state * 3 / 4, CheckedBy: report.ByArithmetic, Numerics: true},
			{Action: "SGD with momentum keeps one moment, Adafactor almost none", Saves: state / 2, CheckedBy: report.ByArithmetic, Numerics: true},
			{Action: "shard it: ZeRO-1 / FSDP2 divides the state by the number of cards", CheckedBy: report.ByRule},
		},
	}}, true
}

// optimizerTemporaries: the foreach implementation makes a temporary as large as all parameters
// (torch/optim/adam.py, _multi_tensor_adam: exp_avg_sq_sqrt).
func optimizerTemporaries(c *Case) (claim, bool) {
	if c.OOM == nil || c.OOM.Phase != callsite.Optimizer || c.creatingState() {
		return claim{}, false
	}
	temp := c.temporaries(callsite.Optimizer)
	need := max(temp, c.By[tape.Gradients])
	seen := "the failing request is inside optimizer.step() and is the first of its temporaries"
	if temp > 0 {
		seen = fmt.Sprintf("the failing request is inside optimizer.step(); %s of its temporaries were alive", temp)
	}
	return claim{kind: normal, tries: []change{{saves: need}, {saves: need}}, Finding: report.Finding{
		ID: "optimizer-step-temporaries", Severity: report.Error, Confidence: 0.9, Bytes: need, Where: c.failurePlace(),
		Title:    "the optimizer's step needs a temporary as large as the parameters",
		Evidence: []string{seen, fmt.Sprintf("the foreach implementation, the default, holds one for all parameters at once: %s; the batch size does not matter", need)},
		Remedies: []report.Remedy{
			{Action: "fused=True in the optimizer: no temporaries, and faster", Saves: need, CheckedBy: report.ByRule},
			{Action: "foreach=False in the optimizer: one parameter at a time, slower", Saves: need, CheckedBy: report.ByRule},
		},
	}}, true
}

// creatingState tells whether the failing request was for the optimizer's state. SGD clones gradients into its momentum in the first
// step, outside _init_group (torch/optim/sgd.py).
func (c *Case) creatingState() bool {
	if c.OOM.Phase != callsite.Optimizer {
		return false
	}
	return c.Origins.Of(c.OOM.Stack).State || len(c.Steps) == 0 && c.passes(c.OOM.Stack, "torch/optim/sgd.py") && !c.decaysWeights()
}

// decaysWeights tells the temporary that SGD's foreach step makes for weight decay, or for maximize, from the momentum it creates further down in the same function:
// by the line (https://github.com/pytorch/pytorch/blob/v2.11.0/torch/optim/sgd.py#L419-L433), since both take as much as the gradients.
func (c *Case) decaysWeights() bool {
	for _, id := range c.Origins.Stacks.Stack(c.OOM.Stack) {
		if f := c.Origins.Stacks.Frames[id]; f.Function == "_multi_tensor_sgd" {
			return f.Line >= 419 && f.Line <= 433
		}
	}
	return false
}

// temporaries sums what is alive that was asked for in a phase and is neither state nor gradient.
func (c *Case) temporaries(p callsite.Phase) units.Bytes {
	var sum units.Bytes
	for _, g := range c.Groups {
		if g.Category == tape.Workspace && c.Origins.Of(g.Stack).Phase == p {
			sum += g.Bytes
		}
	}
	return sum
}

// secondStep: step one had no optimizer state beside its activations; step two has.
func secondStep(c *Case) (claim, bool) {
	if c.OOM == nil || len(c.Steps) == 0 || c.OOM.Step != 1 || c.OOM.Phase == callsite.Optimizer {
		return claim{}, false
	}
	state := c.By[tape.Optimizer]
	if 20*state < c.InUse {
		return claim{}, false
	}
	f := claim{kind: normal, Finding: report.Finding{
		ID: "second-step", Severity: report.Error, Confidence: 0.88, Bytes: state, Where: c.failurePlace(),
		Title: "the first step fitted because the optimizer had no state yet",
		Evidence: []string{
			fmt.Sprintf("%s of optimizer state were created at the end of step 1 and now take memory beside the activations of step 2", state),
			"so a batch size that survives one step proves nothing; two steps do",
		},
	}}
	grads, _ := c.aliveWhere(func(id int) bool { return c.Category[id] == tape.Gradients })
	f.remedy(saving(c.By[tape.Gradients], "optimizer.zero_grad(set_to_none=True) before the forward pass"), change{never: grads})
	f.remedy(c.smallerBatch(c.thisStep(tape.Activations)))
	f.remedy(report.Remedy{Action: "8-bit Adam (bitsandbytes): a quarter of the state", Saves: state * 3 / 4, CheckedBy: report.ByArithmetic, Numerics: true}, change{saves: state * 3 / 4})
	return f, true
}
