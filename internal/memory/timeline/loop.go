package timeline

import (
	"strings"

	"github.com/plimsoll/plimsoll/internal/evidence/callsite"
	"github.com/plimsoll/plimsoll/internal/memory/tape"
	"github.com/plimsoll/plimsoll/snapshot"
)

// minLoop is how many times a loop must have come back to its first line to be taken for one.
const minLoop = 3

// loop finds the outermost loop of the program over allocations of a kind from an event on, and gives the event before each of its iterations but
// the first. It reads stacks from the outside: as long as the program stands in one line it goes into the call there; a
// line that it leaves and comes back to is the body of a loop. Inside a module's call are layers, which repeat as well, so the search ends there.
func (t *Timeline) loop(from int, keep func(snapshot.StackID) bool) []int {
	var events []int
	for i := from; i < len(t.Tape.Events); i++ {
		e := &t.Tape.Events[i]
		if e.Kind != tape.Alloc || t.Stack[e.ID] == 0 {
			continue
		}
		if o := t.Origins.Of(t.Stack[e.ID]); o.User >= 0 && o.Phase != callsite.Load && keep(t.Stack[e.ID]) {
			events = append(events, i)
		}
	}
	for depth := 0; len(events) > 0; depth++ {
		if ends := t.comesBack(events, depth); len(ends) > 0 {
			return ends
		}
		events = t.descend(events, depth)
	}
	return nil
}

// ownLine stands for what a line asks for itself, beside the calls it makes: the body of a loop can be one line.
const ownLine = ^snapshot.FrameID(0)

// site is the frame of an allocation at a depth counted from the outside, and whether there is one.
func (t *Timeline) site(event, depth int) (snapshot.FrameID, bool) {
	stack := t.Origins.Stacks.Stack(t.Stack[t.Tape.Events[event].ID])
	if depth >= len(stack) {
		return 0, false
	}
	return stack[len(stack)-1-depth], true
}

// comesBack looks for the first line at a depth that the program leaves and comes back to at least minLoop times.
func (t *Timeline) comesBack(events []int, depth int) []int {
	visits := map[snapshot.FrameID]int{}
	var order []snapshot.FrameID
	last, any := snapshot.FrameID(0), false
	for _, i := range events {
		f, ok := t.site(i, depth)
		if !ok {
			f = ownLine
		}
		if any && f == last {
			continue
		}
		last, any = f, true
		if visits[f] == 0 {
			order = append(order, f)
		}
		visits[f]++
	}
	for _, f := range order {
		if visits[f] > minLoop {
			return t.iterations(events, depth, f)
		}
	}
	return nil
}

// iterations gives the event before each visit of a line but the first.
func (t *Timeline) iterations(events []int, depth int, start snapshot.FrameID) []int {
	var ends []int
	inside, first := false, true
	for _, i := range events {
		f, ok := t.site(i, depth)
		if !ok {
			f = ownLine
		}
		here := f == start
		if here && !inside && !first {
			ends = append(ends, i-1)
		}
		if here {
			first = false
		}
		inside = here
	}
	return ends
}

// descend keeps the allocations of the line at a depth that made most of them, unless it is the call of a module.
func (t *Timeline) descend(events []int, depth int) []int {
	count := map[snapshot.FrameID]int{}
	best, most := snapshot.FrameID(0), 0
	for _, i := range events {
		if f, ok := t.site(i, depth); ok {
			if count[f]++; count[f] > most || count[f] == most && f < best {
				best, most = f, count[f]
			}
		}
	}
	if most == 0 || t.Origins.InModule(best) || strings.HasPrefix(t.Origins.Stacks.Frames[best].Function, "forward") {
		return nil
	}
	var kept []int
	for _, i := range events {
		if f, ok := t.site(i, depth); ok && f == best {
			kept = append(kept, i)
		}
	}
	return kept
}
