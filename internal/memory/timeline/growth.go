package timeline

import (
	"cmp"
	"slices"
	"sort"

	"github.com/plimsoll/plimsoll/internal/evidence/recording"
	"github.com/plimsoll/plimsoll/internal/memory/tape"
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
	Event    int   // the end of the step at which most was held
	Blocks   []int // the allocations, oldest first
}

// Growing finds what stays alive from step to step.
func (t *Timeline) Growing(minSteps int) []Growth { return t.growing(t.Steps, minSteps) }

// EvalGrowing finds what stays alive from one batch of evaluation to the next.
func (t *Timeline) EvalGrowing(minBatches int) []Growth { return t.growing(t.Batches, minBatches) }

// growing looks at the end of the step before the peak (after the last step
// a program takes its state down), and takes a line for growing when it left something behind in no fewer than minSteps steps, spread over the time since
// it first did: a line that stopped long ago has only set something up. The last step is left out: its tensors may merely not have
// been replaced yet, as those of a plain loop are.
func (t *Timeline) growing(ends []int, minSteps int) []Growth {
	at := t.growthInstant(ends)
	if at < 0 {
		return nil
	}
	now := sort.SearchInts(ends, at)
	type key struct {
		stack    snapshot.StackID
		category tape.Category
	}
	found := map[key]*leaving{}
	survivors := t.survivors(ends, at)
	named := t.namesOfSizes(survivors)
	for _, id := range survivors {
		k := key{t.Stack[id], t.Category[id]}
		if twin, ok := named[t.Size(id)]; ok && k.stack == 0 {
			k = key{t.Stack[twin], t.Category[twin]}
		}
		g := found[k]
		if g == nil {
			g = &leaving{Growth: Growth{Stack: k.stack, Category: k.category, Event: at}, first: -1}
			found[k] = g
		}
		g.add(id, sort.SearchInts(ends, int(t.Born[id])), t.Size(id))
	}
	var out []Growth
	for _, g := range found {
		if g.Span = now - g.first; g.Steps < minSteps || !g.steady(now) || t.bounded(ends, &g.Growth) {
			continue
		}
		g.PerStep = g.Bytes / units.Bytes(g.Steps)
		out = append(out, g.Growth)
	}
	slices.SortFunc(out, func(a, b Growth) int { return cmp.Or(cmp.Compare(b.Bytes, a.Bytes), cmp.Compare(a.Stack, b.Stack)) })
	return out
}

// leaving is a Growth while its blocks are counted.
type leaving struct {
	Growth
	first, last int // step
	gap         int // the longest time between two steps that left something
}

func (g *leaving) add(id, step int, size units.Bytes) {
	if g.first < 0 {
		g.first, g.last, g.Steps = step, step, 1
	}
	if step != g.last {
		g.gap = max(g.gap, step-g.last)
		g.last = step
		g.Steps++
	}
	g.Bytes += size
	g.Blocks = append(g.Blocks, id)
}

// steady tells whether something was left behind again and again until now: no pause is much longer than the usual one.
func (g *leaving) steady(now int) bool {
	usual := max(1, g.Span/g.Steps)
	return max(g.gap, now-g.last) <= 3*usual
}

// bounded tells a store that gives up its oldest as it takes in new ones: of the same line, at least as many blocks lived for two steps or more and
// went, as a quarter of those alive, and not all at once, as the results of one evaluation do.
func (t *Timeline) bounded(ends []int, g *Growth) bool {
	if g.Stack == 0 {
		return false
	}
	evicted := 0
	births, deaths := map[int]bool{}, map[int]bool{}
	for id := len(t.Tape.Initial); id < len(t.Died); id++ {
		if t.Stack[id] != g.Stack || t.Died[id] == recording.NeverFreed || int(t.Died[id]) > g.Event {
			continue
		}
		if born, died := sort.SearchInts(ends, int(t.Born[id])), sort.SearchInts(ends, int(t.Died[id])); died-born >= 2 {
			evicted++
			births[born], deaths[died] = true, true
		}
	}
	return evicted >= 2 && 4*evicted >= len(g.Blocks) && 2*len(deaths) >= len(births)
}

// survivors are the blocks alive at an instant that were made in earlier steps.
func (t *Timeline) survivors(ends []int, at int) []int {
	now := sort.SearchInts(ends, at)
	var out []int
	for id := len(t.Tape.Initial); id < len(t.Died); id++ {
		if t.Alive(id, at) && t.Tape.Events[t.Born[id]].Pool == 0 && sort.SearchInts(ends, int(t.Born[id])) < now { // a graph's pool keeps what it captured
			out = append(out, id)
		}
	}
	return out
}

// namesOfSizes finds, for each size, a block whose stack is known: where only some steps carry stacks, what the others leave behind is of the same line. Of
// several lines that leave blocks of one size it is the one that leaves most.
func (t *Timeline) namesOfSizes(blocks []int) map[units.Bytes]int {
	type key struct {
		size  units.Bytes
		stack snapshot.StackID
	}
	count := map[key]int{}
	named := map[units.Bytes]int{}
	for _, id := range blocks {
		if t.Stack[id] == 0 {
			continue
		}
		k := key{t.Size(id), t.Stack[id]}
		count[k]++
		if other, ok := named[k.size]; !ok || count[k] > count[key{k.size, t.Stack[other]}] {
			named[k.size] = id
		}
	}
	return named
}

// growthInstant is the end of the step after which most was held, the latest of several.
func (t *Timeline) growthInstant(ends []int) int {
	if len(ends) == 0 {
		return -1
	}
	best, most := -1, units.Bytes(-1)
	for k, level := range t.levelsAt(ends) {
		if level >= most {
			best, most = ends[k], level
		}
	}
	return best
}

// StepLevels is what was in use at the end of each step.
func (t *Timeline) StepLevels() []units.Bytes { return t.levelsAt(t.Steps) }

// levelsAt is what was in use after each of some events, which are in order.
func (t *Timeline) levelsAt(ends []int) []units.Bytes {
	now := t.Tape.Before()
	levels := make([]units.Bytes, 0, len(ends))
	for i := range t.Tape.Events {
		now += t.Tape.Events[i].Change()
		for len(levels) < len(ends) && ends[len(levels)] == i {
			levels = append(levels, now)
		}
	}
	return levels
}
