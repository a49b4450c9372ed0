package diagnose

import (
	"fmt"

	"github.com/plimsoll/plimsoll/internal/answer/report"
	"github.com/plimsoll/plimsoll/internal/gpu"
	"github.com/plimsoll/plimsoll/internal/units"
)

// sharedCard: the driver was out of memory long before this process held a card's worth. A snapshot does not say how large the card is; but no card has just this
// much, and the least a card with more has lies well above it: something else may hold the rest. Only the message tells.
func sharedCard(c *Case) (claim, bool) {
	if c.OOM == nil || c.OOM.Limit.From != "driver" || c.OOM.Limit.Bytes <= 0 {
		return claim{}, false
	}
	had := c.OOM.Limit.Bytes
	next := units.Bytes(0) // the smallest card that has more
	for _, card := range gpu.Cards() {
		if size := card.Capacity(); size >= had && (next == 0 || size < next) {
			next = size
		}
	}
	// A context, a desktop and what libraries take outside PyTorch leave at least three quarters of a card.
	if next == 0 || 4*had >= 3*next {
		return claim{}, false
	}
	missing := next - had
	f := claim{Finding: report.Finding{
		ID: "other-process", Severity: report.Warning, Confidence: 0.5, Bytes: missing, Where: c.failurePlace(),
		Title: fmt.Sprintf("only %s of the card was available: something else may hold the rest", had),
		Evidence: []string{
			fmt.Sprintf("the driver had %s left when PyTorch held %s; the smallest card that has more has %s, so at least %s may belong to other processes", c.OOM.DeviceFree, c.OOM.Held, next, missing),
			"the out-of-memory message names the other processes: pass the log together with the snapshot",
		},
	}}
	return f, true
}
