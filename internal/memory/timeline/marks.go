package timeline

import (
	"strconv"
	"strings"

	"github.com/plimsoll/plimsoll/internal/evidence/callsite"
	"github.com/plimsoll/plimsoll/snapshot"
)

// mark is what the probe of `plimsoll run` had named when an event happened: "12 backward" (PyTorch 2.10 on, user_metadata of an event).
type mark struct {
	step  int // -1: no name
	phase callsite.Phase
}

var markedPhases = map[string]callsite.Phase{
	"load": callsite.Load, "forward": callsite.Forward, "backward": callsite.Backward, "optimizer": callsite.Optimizer,
}

func readMark(text string) (mark, bool) {
	number, name, _ := strings.Cut(text, " ")
	step, err := strconv.Atoi(number)
	phase, known := markedPhases[name]
	if err != nil || !known || step < 0 {
		return mark{}, false // a name that the program itself gave
	}
	return mark{step, phase}, true
}

// readMarks finds the mark of every tape event; none are kept where the recording has none. Marks belong to the thread that set them
// (c10/cuda/CUDACachingAllocator.cpp, 2.11: thread_local): an event of the autograd engine's thread has none.
func (t *Timeline) readMarks() {
	byTrace := map[int]mark{}
	for _, n := range t.Trace.Notes {
		if m, ok := readMark(n.UserMetadata); ok {
			byTrace[n.Event] = m
		}
	}
	if len(byTrace) == 0 {
		return
	}
	t.marks, t.firstMark = make([]mark, len(t.Tape.Events)), len(t.Tape.Events)
	for i := range t.marks {
		m, ok := byTrace[int(t.Event[i])]
		if !ok {
			m.step = -1
		} else {
			t.firstMark = min(t.firstMark, i)
		}
		t.marks[i] = m
	}
}

// markedSteps ends a step before the first event that is marked with a later one. A step in which nothing happened to memory ends where the one before did.
func (t *Timeline) markedSteps() []int {
	var ends []int
	last := -1
	for i, m := range t.marks {
		if m.step < 0 {
			continue
		}
		for ; last >= 0 && last < m.step; last++ {
			ends = append(ends, i-1)
		}
		last = max(last, m.step)
	}
	return ends
}

// markedStarts are the events at which the optimizer's part of each step begins, as far as it is marked.
func (t *Timeline) markedStarts() []int {
	var starts []int
	for i, m := range t.marks {
		if m.step >= 0 && m.phase == callsite.Optimizer && t.StepOf(i) == len(starts) {
			starts = append(starts, i-1)
		}
	}
	return starts
}

// PhaseAt is what the program was doing at an event: as the event's stack says or, where it has none, as the event was marked. Once the program's own
// thread is marked, an event without stack and mark is the autograd engine's.
func (t *Timeline) PhaseAt(event int, stack snapshot.StackID) callsite.Phase {
	said := t.Origins.Of(stack).Phase
	if stack != 0 || t.marks == nil {
		return said
	}
	if m := t.marks[event]; m.step >= 0 {
		return m.phase
	}
	if event > t.firstMark {
		return callsite.Backward
	}
	return said
}

// phaseAt is the phase of an Alloc event.
func (t *Timeline) phaseAt(event int) callsite.Phase {
	return t.PhaseAt(event, t.Stack[t.Tape.Events[event].ID])
}
