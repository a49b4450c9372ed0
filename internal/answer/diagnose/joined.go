package diagnose

import (
	"fmt"
	"slices"

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
		Title: fmt.Sprintf("results are concatenated on the card: %s more every iteration", each),
		Evidence: []string{
			fmt.Sprintf("the same line made a tensor that grew by about %s in each of %s iterations, to %s; concatenating needs the old and the new one at once", each, units.Count(rounds), c.OOM.Request),
			"a smaller batch only delays it",
		},
	}}
	if c.OOM.Eval {
		f.ID = "eval-outputs-kept"
		f.Title = fmt.Sprintf("evaluation concatenates its outputs on the card: %s more every batch", each)
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

// lengthening: in every step the same lines make tensors that are longer than those of the step before, by about as much each time: what a step leaves is joined to what earlier
// ones left (a memory of segments, a history, a queue), and all that is computed from it grows with it. No tensor of an earlier step need be alive.
func lengthening(c *Case) (claim, bool) {
	if c.OOM == nil || c.OOM.Eval || len(c.Steps) < leastJoins {
		return claim{}, false
	}
	rising, each, rounds := c.risingStacks()
	ids, sum := c.aliveWhere(func(id int) bool { return c.Stack[id] != 0 && rising[c.Stack[id]] })
	request := rising[c.OOM.Stack] && c.OOM.Stack != 0
	if 3*sum < c.InUse {
		return c.risingSteps()
	}
	var stacks []snapshot.StackID
	for _, id := range ids {
		stacks = append(stacks, c.Stack[id])
	}
	undo := change{scaled: map[int]bool{}, by: 1 / float64(rounds+1), request: request}
	for _, id := range ids {
		undo.scaled[id] = true
	}
	f := claim{without: undo, Finding: report.Finding{
		ID: "growth", Severity: report.Error, Confidence: 0.82, Bytes: sum, Where: append(c.joinPlaces(stacks), c.loopPlaces(stacks...)...),
		Title: fmt.Sprintf("every step works on larger tensors than the one before: %s more", each),
		Evidence: []string{
			fmt.Sprintf("in each of the last %s steps the same lines requested more than in the step before, each time by about as much; together they hold %s", units.Count(rounds), sum),
			"this happens when results are concatenated to those of earlier steps (torch.cat), or when inputs get longer on purpose",
			"a smaller batch only delays it",
		},
	}}
	f.remedy(saving(sum, "keep a bounded part of what is carried over: memory = memory[:, -length:].detach()"), undo)
	return f, true
}

// risingStacks finds the stacks whose largest request rose by about the same in each of the last steps.
func (c *Case) risingStacks() (rising map[snapshot.StackID]bool, each units.Bytes, rounds int) {
	largest := map[snapshot.StackID][]units.Bytes{}
	step, made := 0, map[snapshot.StackID]units.Bytes{}
	flush := func() {
		for s, size := range made {
			largest[s] = append(largest[s], size)
		}
		clear(made)
	}
	for i := range c.OOM.Event {
		for step < len(c.Steps) && c.Steps[step] < i {
			flush()
			step++
		}
		if e := &c.Tape.Events[i]; e.Kind == tape.Alloc && c.Stack[e.ID] != 0 && e.Size >= units.MiB {
			made[c.Stack[e.ID]] = max(made[c.Stack[e.ID]], e.Size)
		}
	}
	rising = map[snapshot.StackID]bool{}
	for s, sizes := range largest {
		if n, more := lengthens(sizes); n >= leastJoins && 2*n >= len(sizes) {
			rising[s] = true
			each += more
			rounds = max(rounds, n)
		}
	}
	return rising, each, rounds
}

// joinPlaces are the lines among some stacks whose tensor outlives the step that made it: what is carried over.
func (c *Case) joinPlaces(stacks []snapshot.StackID) []report.Place {
	wanted := map[snapshot.StackID]bool{}
	for _, s := range stacks {
		wanted[s] = true
	}
	var carried []snapshot.StackID
	for id := len(c.Tape.Initial); id < len(c.Died); id++ {
		if wanted[c.Stack[id]] && c.Alive(id, c.Instant) && c.BornIn(id) < c.OOM.Step {
			carried = append(carried, c.Stack[id])
		}
	}
	return c.places(carried...)
}

// risingSteps tells the same where lines were not recorded: each of the last steps rose higher above where it began than the one before, by about the same.
func (c *Case) risingSteps() (claim, bool) {
	rises := c.stepRises()
	rounds, each := lengthens(rises)
	if rounds < leastJoins || 2*rounds < len(rises) {
		return claim{}, false
	}
	sum := rises[len(rises)-1] - rises[len(rises)-1-rounds]
	if 4*sum < c.InUse {
		return claim{}, false
	}
	undo := change{saves: sum}
	f := claim{without: undo, Finding: report.Finding{
		ID: "growth", Severity: report.Error, Confidence: 0.75, Bytes: sum, Where: slices.Compact(append(c.failurePlace(), c.runningPlaces()...)),
		Title: fmt.Sprintf("every step needs more than the one before: %s more", each),
		Evidence: []string{
			fmt.Sprintf("in each of the last %s steps the memory in use rose further above where the step began, by about the same each time: %s in all", units.Count(rounds), sum),
			"this happens when results are concatenated to those of earlier steps (torch.cat), or when inputs get longer on purpose",
		},
	}}
	f.remedy(saving(sum, "keep a bounded part of what is carried over from step to step"), undo)
	return f, true
}

// stepRises is how far the memory in use rose in each complete step above what was in use when it began.
func (c *Case) stepRises() []units.Bytes {
	var out []units.Bytes
	level, low, high := c.Tape.Before(), units.Bytes(0), units.Bytes(0)
	step := 0
	for i := range c.Tape.Events {
		if i > c.OOM.Event || step >= len(c.Steps) {
			break
		}
		level += c.Tape.Events[i].Change()
		high = max(high, level)
		if i == c.Steps[step] {
			if step > 0 {
				out = append(out, high-low)
			}
			low, high = level, level
			step++
		}
	}
	return out
}
