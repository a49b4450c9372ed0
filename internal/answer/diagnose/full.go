package diagnose

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/plimsoll/plimsoll/internal/answer/report"
	"github.com/plimsoll/plimsoll/internal/evidence/callsite"
	"github.com/plimsoll/plimsoll/internal/memory/tape"
)

// plural names categories in a sentence.
var plural = map[tape.Category]string{tape.Activations: "activations", tape.Parameters: "parameters", tape.Gradients: "gradients", tape.Optimizer: "the optimizer's tensors"}

// simplyFull is said about a failure that no rule explains: what there is, largest first, and what makes each smaller; or, where most of it has no
// known purpose, that the cause is not known and what would tell.
func (c *Case) simplyFull() claim {
	if known := c.InUse - c.By[tape.Other] - c.By[tape.Inputs]; 2*known < c.InUse {
		return c.unknown()
	}
	act := c.thisStep(tape.Activations)
	if !c.Certain || 4*act < c.InUse {
		return c.unknown()
	}
	f := claim{kind: normal, Finding: report.Finding{
		ID: "activations-dominate", Severity: report.Error, Confidence: 0.45, Bytes: max(act, 1), Where: c.failurePlace(),
		Title: "the job needs more memory than there is, and no single cause stands out",
	}}
	f.Evidence = []string{c.breakdown()}
	if unused := c.OOM.Held - c.InUse; 20*unused < c.OOM.Held {
		f.Evidence = append(f.Evidence, notFragmentation(unused))
	}
	if c.OOM.Phase == callsite.Forward && c.By[tape.Gradients] > 0 {
		grads, sum := c.aliveWhere(func(id int) bool { return c.Category[id] == tape.Gradients })
		f.remedy(saving(sum, "optimizer.zero_grad(set_to_none=True) before the forward pass"), change{never: grads})
	}
	f.remedy(c.smallerBatch(act))
	if state := c.By[tape.Optimizer]; state > 0 {
		f.remedy(report.Remedy{Action: "8-bit Adam (bitsandbytes): a quarter of the state", Saves: state * 3 / 4, CheckedBy: report.ByArithmetic, Numerics: true}, change{saves: state * 3 / 4})
	}
	return f
}

// unknown says that the recording does not tell the cause, what there is, and what would tell.
func (c *Case) unknown() claim {
	dark := c.By[tape.Other] + c.By[tape.Inputs]
	f := claim{kind: normal, Finding: report.Finding{
		ID: "unknown", Severity: report.Error, Confidence: 0.3, Bytes: dark, Where: c.failurePlace(),
		Title:    fmt.Sprintf("not known: this recording does not say what %s of %s in use is for", dark, c.InUse),
		Evidence: []string{"the card was full, but the recording has neither stacks nor training steps that say what filled it"},
	}}
	switch {
	case 2*dark < c.InUse:
		f.Title = fmt.Sprintf("not known: no single cause stands out in %s in use", c.InUse)
		f.Bytes, f.Evidence[0] = c.InUse, c.breakdown()
	case c.Certain:
		f.Evidence[0] = "the card was full of tensors that no model, batch or optimizer of this recording accounts for"
	}
	if !c.Certain {
		f.Evidence = append(f.Evidence, "what would tell: the line that asked for each tensor, and who holds it; both are recorded by plimsoll run, lines also by _record_memory_history(context=\"all\")")
	} else if c.Holders == nil {
		f.Evidence = append(f.Evidence, "what would tell: who holds each tensor, which plimsoll run records at the failure")
	}
	f.remedy(report.Remedy{Action: "record it from the start with stacks and holders: plimsoll run -- python train.py", CheckedBy: report.ByRule, Command: "plimsoll run -- python train.py"}, change{})
	return f
}

// breakdown says what the two largest categories take.
func (c *Case) breakdown() string {
	kinds := []tape.Category{tape.Activations, tape.Parameters, tape.Gradients, tape.Optimizer}
	slices.SortStableFunc(kinds, func(a, b tape.Category) int { return cmp.Compare(c.By[b], c.By[a]) })
	return fmt.Sprintf("of %s in use, %s take %s and %s %s", c.InUse, plural[kinds[0]], c.By[kinds[0]], plural[kinds[1]], c.By[kinds[1]])
}
