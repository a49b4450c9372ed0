package diagnose

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/plimsoll/plimsoll/internal/answer/report"
	"github.com/plimsoll/plimsoll/internal/evidence/callsite"
	"github.com/plimsoll/plimsoll/internal/memory/tape"
	"github.com/plimsoll/plimsoll/internal/units"
)

// plural names categories in a sentence.
var plural = map[tape.Category]string{tape.Activations: "activations", tape.Parameters: "parameters", tape.Gradients: "gradients", tape.Optimizer: "the optimizer's tensors"}

// simplyFull is said about a failure that no rule explains: what there is, largest first, and what makes each smaller.
func (c *Case) simplyFull() report.Finding {
	act := c.thisStep(tape.Activations)
	f := report.Finding{
		ID: "activations-dominate", Severity: report.Error, Confidence: 0.45, Bytes: act, Where: c.failurePlace(),
		Title: "the job needs a little more than there is, and no single cause stands out",
	}
	kinds := []tape.Category{tape.Activations, tape.Parameters, tape.Gradients, tape.Optimizer}
	slices.SortStableFunc(kinds, func(a, b tape.Category) int { return cmp.Compare(c.By[b], c.By[a]) })
	f.Evidence = []string{fmt.Sprintf("of %s in use, %s take %s and %s %s", c.InUse, plural[kinds[0]], c.By[kinds[0]], plural[kinds[1]], c.By[kinds[1]])}
	if unused := c.OOM.Held - c.InUse; 20*unused < c.OOM.Held {
		f.Evidence = append(f.Evidence, notFragmentation(unused))
	}
	if c.OOM.Phase == callsite.Forward && c.By[tape.Gradients] > 0 {
		f.Remedies = append(f.Remedies, saving(c.By[tape.Gradients], "optimizer.zero_grad(set_to_none=True) before the forward pass"))
	}
	f.Remedies = append(f.Remedies, saving(act/2, halve))
	if state := c.By[tape.Optimizer]; state > units.Bytes(0) {
		f.Remedies = append(f.Remedies, report.Remedy{Action: "8-bit Adam (bitsandbytes): a quarter of the state", Saves: state * 3 / 4, CheckedBy: report.ByArithmetic, Numerics: true})
	}
	return f
}
