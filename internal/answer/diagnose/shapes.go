package diagnose

import (
	"fmt"

	"github.com/plimsoll/plimsoll/internal/answer/report"
	"github.com/plimsoll/plimsoll/internal/evidence/callsite"
	"github.com/plimsoll/plimsoll/internal/memory/tape"
	"github.com/plimsoll/plimsoll/internal/memory/timeline"
	"github.com/plimsoll/plimsoll/internal/units"
	"github.com/plimsoll/plimsoll/snapshot"
)

// logits: the output over the whole vocabulary, and what the loss makes of it, is a large part.
func logits(c *Case) (claim, bool) {
	var sum units.Bytes
	var stacks []snapshot.StackID
	var sizes map[units.Bytes]bool
	if c.OOM != nil && !c.OOM.Eval && c.OOM.Phase != callsite.Load && c.OOM.Phase != callsite.Optimizer {
		sizes = c.vocabulary()
	}
	for _, g := range c.Groups {
		o := c.Origins.Of(g.Stack)
		if g.Category == tape.Activations && (o.Logits || sizes[g.Largest]) {
			sum += g.Bytes
			stacks = append(stacks, g.Stack)
		}
	}
	failing := c.OOM != nil && (c.Origins.Of(c.OOM.Stack).Logits || sizes[c.OOM.Request])
	if failing {
		sum += c.OOM.Request
		stacks = append(stacks, c.OOM.Stack)
	}
	if 4*sum < c.InUse {
		return claim{}, false
	}
	severity := report.Remark
	if failing && 2*sum >= c.thisStep(tape.Activations)+c.OOM.Request { // otherwise they only came last
		severity = report.Error
	}
	return claim{kind: normal, Finding: report.Finding{
		ID: "logits", Severity: severity, Confidence: 0.9, Bytes: sum, Where: c.places(stacks...),
		Title:    fmt.Sprintf("the logits and their loss take %s", sum),
		Evidence: []string{"cross-entropy holds the logits, their log-probabilities and their gradient at once: 12 to 16 bytes per token and vocabulary entry"},
		Remedies: []report.Remedy{
			{Action: "fused or chunked cross-entropy (Liger kernel, or torch's linear_cross_entropy): never holds all logits", Saves: sum * 3 / 4, CheckedBy: report.ByArithmetic},
			{Action: "do not keep outputs.logits beyond the loss: del outputs before backward", Saves: sum / 4, CheckedBy: report.ByArithmetic},
		},
	}}, true
}

// attention: scores of every token with every token.
func attention(c *Case) (claim, bool) {
	var sum units.Bytes
	var stacks []snapshot.StackID
	scores := c.scores()
	var sizes map[units.Bytes]bool
	if c.OOM != nil && (c.OOM.Phase == callsite.Forward || c.OOM.Phase == callsite.Backward) {
		sizes = c.scoreSizes()
	}
	for _, g := range c.Groups {
		if g.Category == tape.Activations && (c.namedAttention(g.Stack) || scores[c.score(g)] || sizes[g.Largest]) {
			sum += g.Bytes
			stacks = append(stacks, g.Stack)
		}
	}
	if c.OOM != nil && sizes[c.OOM.Request] {
		sum += c.OOM.Request
		stacks = append(stacks, c.OOM.Stack)
	}
	if 3*sum < c.InUse {
		return claim{}, false
	}
	severity := report.Remark
	if c.OOM != nil && (c.Origins.Of(c.OOM.Stack).Attention || c.OOM.Phase == callsite.Forward || c.OOM.Phase == callsite.Backward) {
		severity = report.Error
	}
	return claim{kind: normal, Finding: report.Finding{
		ID: "attention-quadratic", Severity: severity, Confidence: 0.85, Bytes: sum, Where: c.places(stacks...),
		Title:    fmt.Sprintf("attention scores take %s: they grow with the square of the sequence", sum),
		Evidence: []string{"the scores of every token with every token are kept for backward in each layer"},
		Remedies: []report.Remedy{
			{Action: `attn_implementation="sdpa" (or F.scaled_dot_product_attention): keeps no scores`, Saves: sum, CheckedBy: report.ByRule},
			{Action: "half the sequence length: a quarter of the scores", Saves: sum * 3 / 4, CheckedBy: report.ByArithmetic},
		},
	}}, true
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
