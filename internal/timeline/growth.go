package timeline

import (
	"cmp"
	"slices"

	"github.com/plimsoll/plimsoll/internal/tape"
	"github.com/plimsoll/plimsoll/internal/units"
	"github.com/plimsoll/plimsoll/snapshot"
)

// Growth is memory that one stack leaves behind step after step.
type Growth struct {
	Stack    snapshot.StackID
	Category tape.Category
	Steps    int         // steps from which something is still alive at Event
	Span     int         // steps between the oldest survivor and Event
	Bytes    units.Bytes // alive at Event from earlier steps
	PerStep  units.Bytes
	Event    int // the end of the step at which most was held
}

// Growing finds what stays alive from step to step. It looks at the end of the step before the peak (after the last step
// a program takes its state down), and takes a line for growing when it left something behind in at least half of
// the steps since it first did, and in no fewer than minSteps. The last step is left out: its tensors may merely not have
// been replaced yet, as those of a plain loop are.
func (t *Timeline) Growing(minSteps int) []Growth {
	at := t.growthInstant()
	if at < 0 {
		return nil
	}
	now := t.StepOf(at)
	type key struct {
		stack    snapshot.StackID
		category tape.Category
	}
	found := map[key]*Growth{}
	oldest := map[key]int{}
	lastStep := map[key]int{}
	for id := len(t.Tape.Initial); id < len(t.Died); id++ {
		if !t.Alive(id, at) {
			continue
		}
		step := t.StepOf(int(t.Born[id]))
		if step >= now {
			continue
		}
		k := key{t.Stack[id], t.Category[id]}
		g := found[k]
		if g == nil {
			g = &Growth{Stack: k.stack, Category: k.category, Event: at}
			found[k], oldest[k], lastStep[k] = g, step, -1
		}
		if step != lastStep[k] {
			g.Steps++
			lastStep[k] = step
		}
		g.Bytes += t.Size(id)
		g.Span = now - oldest[k]
	}
	var out []Growth
	for _, g := range found {
		if g.Steps < minSteps || 2*g.Steps < g.Span {
			continue
		}
		g.PerStep = g.Bytes / units.Bytes(g.Steps)
		out = append(out, *g)
	}
	slices.SortFunc(out, func(a, b Growth) int { return cmp.Or(cmp.Compare(b.Bytes, a.Bytes), cmp.Compare(a.Stack, b.Stack)) })
	return out
}

// growthInstant is the end of the last whole step before the peak, or of the last step when the peak comes early.
func (t *Timeline) growthInstant() int {
	if len(t.Steps) == 0 {
		return -1
	}
	best, most := -1, units.Bytes(-1)
	var now units.Bytes
	for _, l := range t.Tape.Initial {
		now += l.Size
	}
	k := 0
	for i := range t.Tape.Events {
		e := &t.Tape.Events[i]
		switch {
		case e.Kind == tape.Alloc:
			now += e.Size
		case e.Kind == tape.FreeCompleted, e.Kind == tape.Free && !e.Deferred:
			now -= e.Size
		}
		for k < len(t.Steps) && t.Steps[k] == i {
			if now >= most {
				best, most = i, now
			}
			k++
		}
	}
	return best
}

// StepLevels is what was in use at the end of each step.
func (t *Timeline) StepLevels() []units.Bytes {
	var now units.Bytes
	for _, l := range t.Tape.Initial {
		now += l.Size
	}
	levels := make([]units.Bytes, 0, len(t.Steps))
	for i := range t.Tape.Events {
		e := &t.Tape.Events[i]
		switch {
		case e.Kind == tape.Alloc:
			now += e.Size
		case e.Kind == tape.FreeCompleted, e.Kind == tape.Free && !e.Deferred:
			now -= e.Size
		}
		for len(levels) < len(t.Steps) && t.Steps[len(levels)] == i {
			levels = append(levels, now)
		}
	}
	return levels
}
