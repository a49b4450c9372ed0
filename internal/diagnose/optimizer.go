package diagnose

import (
	"fmt"

	"github.com/plimsoll/plimsoll/internal/origin"
	"github.com/plimsoll/plimsoll/internal/report"
	"github.com/plimsoll/plimsoll/internal/tape"
	"github.com/plimsoll/plimsoll/internal/units"
)

// optimizerFirstStep: forward and backward fitted, the optimizer's state, which PyTorch creates in the first
// step(), does not (torch/optim/adam.py, _init_group).
func optimizerFirstStep(c *Case) (report.Finding, bool) {
	if c.OOM == nil || c.OOM.Phase != origin.Optimizer || !c.Origins.Of(c.OOM.Stack).State {
		return report.Finding{}, false
	}
	params := c.By[tape.Parameters]
	return report.Finding{
		ID: "optimizer-state-first-step", Severity: report.Error, Confidence: 0.97, Bytes: c.By[tape.Optimizer], Where: c.failurePlace(),
		Title: "the optimizer's state does not fit",
		Evidence: []string{
			fmt.Sprintf("the first optimizer.step() was creating its state: %s so far, Adam's two moments will take twice the parameters (%s)", c.By[tape.Optimizer], 2*params),
			"it stays for the rest of the run, so every later step needs it too",
		},
		Refuted: "a failure in a later step",
		Remedies: []report.Remedy{
			{Action: "8-bit Adam (bitsandbytes.optim.AdamW8bit): 2.03 bytes a parameter instead of 8", Saves: 2 * params * 3 / 4, CheckedBy: report.ByArithmetic, Numerics: true},
			{Action: "SGD with momentum keeps one moment, Adafactor almost none", Saves: params, CheckedBy: report.ByArithmetic, Numerics: true},
			{Action: "shard it: ZeRO-1 / FSDP2 divides the state by the number of cards", CheckedBy: report.ByRule},
		},
	}, true
}

// optimizerTemporaries: the foreach implementation makes a temporary as large as all parameters
// (torch/optim/adam.py, _multi_tensor_adam: exp_avg_sq_sqrt).
func optimizerTemporaries(c *Case) (report.Finding, bool) {
	if c.OOM == nil || c.OOM.Phase != origin.Optimizer || c.Origins.Of(c.OOM.Stack).State {
		return report.Finding{}, false
	}
	temp := c.temporaries(origin.Optimizer)
	need := max(temp, c.By[tape.Parameters])
	return report.Finding{
		ID: "optimizer-step-temporaries", Severity: report.Error, Confidence: 0.9, Bytes: need, Where: c.failurePlace(),
		Title:    "the optimizer's step needs a temporary as large as the parameters",
		Evidence: []string{fmt.Sprintf("the failing request is inside optimizer.step(); %s of its temporaries were alive", temp)},
		Refuted:  "an optimizer created with foreach=False or fused=True",
		Remedies: []report.Remedy{
			{Action: "fused=True in the optimizer: no temporaries, and faster", Saves: need, CheckedBy: report.ByRule},
			{Action: "foreach=False in the optimizer: one parameter at a time, slower", Saves: need, CheckedBy: report.ByRule},
		},
	}, true
}

// temporaries sums what is alive that was asked for in a phase and is neither state nor gradient.
func (c *Case) temporaries(p origin.Phase) units.Bytes {
	var sum units.Bytes
	for _, g := range c.Groups {
		if g.Category == tape.Workspace && c.Origins.Of(g.Stack).Phase == p {
			sum += g.Bytes
		}
	}
	return sum
}

// secondStep: step one had no optimizer state beside its activations; step two has.
func secondStep(c *Case) (report.Finding, bool) {
	if c.OOM == nil || len(c.Steps) == 0 || c.OOM.Step != 1 || c.OOM.Phase == origin.Optimizer {
		return report.Finding{}, false
	}
	state := c.By[tape.Optimizer]
	if 20*state < c.InUse {
		return report.Finding{}, false
	}
	return report.Finding{
		ID: "second-step", Severity: report.Error, Confidence: 0.88, Bytes: state, Where: c.failurePlace(),
		Title: "the first step fitted because the optimizer had no state yet",
		Evidence: []string{
			fmt.Sprintf("%s of optimizer state were created at the end of step 1 and now stand beside the activations of step 2", state),
			"so a batch size that survives one step proves nothing; two steps do",
		},
		Refuted: "a larger batch or longer sequence in step 2",
		Remedies: []report.Remedy{
			{Action: "optimizer.zero_grad(set_to_none=True) before the forward pass", Saves: c.By[tape.Gradients], CheckedBy: report.ByArithmetic},
			{Action: "halve the micro-batch and accumulate two of them", Saves: c.By[tape.Activations] / 2, CheckedBy: report.ByArithmetic},
			{Action: "8-bit Adam (bitsandbytes): a quarter of the state", Saves: state * 3 / 4, CheckedBy: report.ByArithmetic, Numerics: true},
		},
	}, true
}
