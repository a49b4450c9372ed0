package timeline

import (
	"sort"
	"strings"

	"github.com/plimsoll/plimsoll/internal/evidence/callsite"
	"github.com/plimsoll/plimsoll/internal/memory/tape"
	"github.com/plimsoll/plimsoll/snapshot"
)

// findSteps finds where training steps end: as the probe marked them, else at the end of each Optimizer.step that PyTorch annotated (2.5+), else
// where allocations by the optimizer stop, else where a loop of the program that runs backward comes back to its first line. A fused optimizer allocates in
// its first step only: then the loop knows more steps than the optimizer. Layers repeat too, but not around a backward pass: without one there are no steps.
func (t *Timeline) findSteps() {
	if t.Steps = t.markedSteps(); len(t.Steps) > 0 {
		t.StepsFrom = "marks"
		return
	}
	if t.Steps = t.annotatedSteps(); len(t.Steps) > 0 {
		t.StepsFrom = "annotations"
		return
	}
	runs := t.optimizerRuns()
	if len(runs) < 2 {
		if loop := t.trainedRounds(t.loop(0, func(s snapshot.StackID) bool { return !t.IsEval(s) })); len(loop) >= minLoop {
			t.Steps, t.StepsFrom = loop, "repetition"
			return
		}
	}
	if len(runs) > 0 {
		t.Steps, t.StepsFrom = runs, "stacks"
	}
}

// findBatches finds where the batches of evaluation end: those of functions whose name says so, or else of a loop after the last
// step that never runs backward.
func (t *Timeline) findBatches() {
	if loop := t.loop(0, t.IsEval); len(loop) >= minLoop {
		t.Batches = loop
		return
	}
	from := 0
	if n := len(t.Steps); n > 0 {
		from = t.Steps[n-1] + 1
	}
	for i := from; i < len(t.Tape.Events); i++ {
		if t.Tape.Events[i].Kind == tape.Alloc && t.phaseAt(i) == callsite.Backward {
			return
		}
	}
	if loop := t.loop(from, func(snapshot.StackID) bool { return true }); len(loop) >= minLoop && 2*t.iterationsWith(callsite.Forward, loop) >= len(loop) && t.newCode(from) {
		t.Batches, t.Unnamed = loop, true
	}
}

func (t *Timeline) annotatedSteps() []int {
	if t.Trace.TimeUS == nil {
		return nil
	}
	var ends []int
	for _, a := range t.Snapshot.Annotations {
		if a.Start || a.Device != t.Device || !strings.HasPrefix(a.Name, "Optimizer.step#") {
			continue
		}
		if e := t.eventAt(a.TimeUS); e >= 0 && (len(ends) == 0 || e > ends[len(ends)-1]) { // -1: before the history
			ends = append(ends, e)
		}
	}
	return ends
}

// eventAt is the last tape event not after a time.
func (t *Timeline) eventAt(us int64) int {
	return sort.Search(len(t.Event), func(i int) bool { return t.Trace.TimeUS[t.Event[i]] > us }) - 1
}

// optimizerRuns ends a step where allocations of the optimizer are followed by others.
func (t *Timeline) optimizerRuns() []int {
	var ends []int
	last := -1
	for i := range t.Tape.Events {
		if t.Tape.Events[i].Kind != tape.Alloc {
			continue
		}
		if t.phaseAt(i) == callsite.Optimizer {
			last = i
		} else if last >= 0 {
			ends = append(ends, i-1)
			last = -1
		}
	}
	return ends
}

// newCode tells whether most of what is asked for from an event on comes from lines that were not seen before it: the next step of training would come from the same.
func (t *Timeline) newCode(from int) bool {
	seen := make([]bool, t.Origins.Stacks.Len())
	known, all := 0, 0
	for i := range t.Tape.Events {
		if t.Tape.Events[i].Kind != tape.Alloc {
			continue
		}
		stack := t.Stack[t.Tape.Events[i].ID]
		if i < from {
			seen[stack] = true
			continue
		}
		if all++; seen[stack] {
			known++
		}
	}
	return 2*known < all
}

// trainedRounds are the steps in a loop: its iterations, where at least half of them run a backward pass; where fewer do, as in a loop over the time steps or the micro-batches of
// each backward pass, a step goes to the end of the iteration that ran one.
func (t *Timeline) trainedRounds(ends []int) []int {
	if 2*t.iterationsWith(callsite.Backward, ends) >= len(ends) {
		return ends
	}
	var out []int
	back := false
	next := 0
	for i := range t.Tape.Events {
		if next < len(ends) && i > ends[next] {
			if back {
				out = append(out, ends[next])
			}
			back = false
			next++
		}
		if t.Tape.Events[i].Kind == tape.Alloc && t.phaseAt(i) == callsite.Backward {
			back = true
		}
	}
	return out
}

// iterationsWith counts the iterations of a loop in which a phase asks for memory.
func (t *Timeline) iterationsWith(phase callsite.Phase, ends []int) int {
	n, last := 0, -1
	for i := range t.Tape.Events {
		if t.Tape.Events[i].Kind != tape.Alloc || t.phaseAt(i) != phase {
			continue
		}
		if at := sort.SearchInts(ends, i); at != last {
			n, last = n+1, at
		}
	}
	return n
}
