package diagnose

import (
	"fmt"

	"github.com/plimsoll/plimsoll/internal/answer/report"
	"github.com/plimsoll/plimsoll/internal/memory/tape"
	"github.com/plimsoll/plimsoll/internal/units"
	"github.com/plimsoll/plimsoll/snapshot"
)

// leastJoins is how often a line must have made a longer tensor of the one before.
const leastJoins = 5

// joined: results are joined as they come: each round makes one tensor longer by about the same, and for a moment the old and the new one exist. Nothing is
// left behind from round to round, so that growth of many tensors does not show it (Trainer's nested_concat, x = torch.cat([x, new])).
func joined(c *Case) (claim, bool) {
	if c.OOM == nil || c.OOM.Stack == 0 || c.passes(c.OOM.Stack, "cache_utils.py") {
		return claim{}, false
	}
	sizes, last := c.sizesOf(c.OOM.Stack)
	sizes = append(sizes, c.OOM.Request)
	rounds, each := lengthens(sizes)
	if rounds < leastJoins || last < 0 || !c.Alive(last, c.Instant) {
		return claim{}, false
	}
	sum := c.Size(last) + c.OOM.Request
	if 4*sum < c.InUse {
		return claim{}, false
	}
	undo := change{never: []int{last}, request: true}
	f := claim{without: undo, Finding: report.Finding{
		ID: "growth", Severity: report.Error, Confidence: 0.88, Bytes: sum, Where: c.loopPlaces(c.OOM.Stack),
		Title: fmt.Sprintf("results are joined on the card: %s longer every round", each),
		Evidence: []string{
			fmt.Sprintf("the same line made a tensor that grew by about %s in each of %s rounds, to %s; joining needs the old and the new one at once", each, units.Count(rounds), c.OOM.Request),
			"a smaller batch only delays it",
		},
	}}
	if c.OOM.Eval {
		f.ID = "eval-outputs-kept"
		f.Title = fmt.Sprintf("evaluation joins its outputs on the card: %s longer every batch", each)
	}
	f.remedy(saving(sum, "collect on the CPU: out.detach().cpu(); with Trainer: eval_accumulation_steps=8, or preprocess_logits_for_metrics to keep less of each batch"), undo)
	return f, true
}

// sizesOf lists what a stack asked for, in order, and its last allocation; -1 where it has none.
func (c *Case) sizesOf(stack snapshot.StackID) (sizes []units.Bytes, last int) {
	last = -1
	for i := range c.OOM.Event {
		if e := &c.Tape.Events[i]; e.Kind == tape.Alloc && c.Stack[e.ID] == stack {
			sizes = append(sizes, e.Size)
			last = int(e.ID)
		}
	}
	return sizes, last
}

// lengthens counts the rounds at the end of a list in which sizes rise by about the same, and tells by how much.
func lengthens(sizes []units.Bytes) (rounds int, each units.Bytes) {
	var least, most units.Bytes
	for i := len(sizes) - 1; i > 0; i-- {
		d := sizes[i] - sizes[i-1]
		if d <= 0 {
			break
		}
		low, high := d, d
		if rounds > 0 {
			low, high = min(least, d), max(most, d)
		}
		if 10*high > 13*low+10*units.KiB {
			break
		}
		least, most = low, high
		rounds++
	}
	return rounds, (least + most) / 2
}
