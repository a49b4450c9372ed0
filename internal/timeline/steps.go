package timeline

import (
	"sort"
	"strings"

	"github.com/plimsoll/plimsoll/internal/origin"
	"github.com/plimsoll/plimsoll/internal/tape"
	"github.com/plimsoll/plimsoll/snapshot"
)

// findSteps finds where training steps end: at the end of each Optimizer.step that PyTorch annotated (2.5+), else
// where allocations by the optimizer stop, else at the repetition of the allocation that a loop begins with.
func (t *Timeline) findSteps() {
	if t.Steps = t.annotatedSteps(); len(t.Steps) > 0 {
		t.StepsFrom = "annotations"
		return
	}
	if t.Steps = t.optimizerRuns(); len(t.Steps) > 1 {
		t.StepsFrom = "stacks"
		return
	}
	if t.Steps = t.repetition(); len(t.Steps) > 2 {
		t.StepsFrom = "repetition"
		return
	}
	t.Steps = nil
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
		if e := t.eventAt(a.TimeUS); len(ends) == 0 || e > ends[len(ends)-1] {
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
		if t.phaseAt(i) == origin.Optimizer {
			last = i
		} else if last >= 0 {
			ends = append(ends, i-1)
			last = -1
		}
	}
	return ends
}

// repetition takes the first stack in time that comes back at least three times, other allocations between, as
// the beginning of a loop's body. Only stacks of the program's own thread count.
func (t *Timeline) repetition() []int {
	type sight struct{ first, count, last int }
	seen := map[snapshot.StackID]*sight{}
	order := []snapshot.StackID{}
	n := 0
	for i := range t.Tape.Events {
		if t.Tape.Events[i].Kind != tape.Alloc {
			continue
		}
		n++
		stack := t.Stack[t.Tape.Events[i].ID]
		if stack == 0 || t.Origins.Of(stack).Phase == origin.Load {
			continue
		}
		s := seen[stack]
		if s == nil {
			s = &sight{first: i, last: -2}
			seen[stack] = s
			order = append(order, stack)
		}
		if n > s.last+1 { // not merely the same line again
			s.count++
		}
		s.last = n
	}
	for _, stack := range order {
		if seen[stack].count >= 3 {
			return t.occurrences(stack)
		}
	}
	return nil
}

// occurrences gives the events before each allocation of a stack but the first, a run of them counted once.
func (t *Timeline) occurrences(stack snapshot.StackID) []int {
	var ends []int
	first, run := true, false
	for i := range t.Tape.Events {
		if t.Tape.Events[i].Kind != tape.Alloc {
			continue
		}
		same := t.Stack[t.Tape.Events[i].ID] == stack
		if same && !run {
			if !first {
				ends = append(ends, i-1)
			}
			first = false
		}
		run = same
	}
	return ends
}

// phaseAt is what the stack of an Alloc event says.
func (t *Timeline) phaseAt(event int) origin.Phase {
	return t.Origins.Of(t.Stack[t.Tape.Events[event].ID]).Phase
}
