package diagnose

import (
	"math"
	"slices"
	"sort"
	"strings"

	"github.com/plimsoll/plimsoll/internal/evidence/recording"
	"github.com/plimsoll/plimsoll/internal/memory/replay"
	"github.com/plimsoll/plimsoll/internal/memory/tape"
	"github.com/plimsoll/plimsoll/internal/units"
	"github.com/plimsoll/plimsoll/snapshot"
)

// Rest is what the failing step would still have done, as an earlier complete step did it that asked for the same sizes in the same order up to the request that failed. Bytes alone do not
// say whether it fits: optimizer state that the first step puts into a block of 352 MiB leaves too little of it for the next tensor of 352 MiB, however much is free in all.
type Rest struct {
	events []tape.Event // what follows the failing request, whose ID is the number of allocations of the tape
	of     []int        // of the new allocations, by ID after that: the one of the earlier step that it repeats
}

// smallest is the size below which requests do not have to match: they come and go with what is logged.
const smallest = 64 * units.KiB

// stepsBack is how many earlier steps are looked at for one like the failing one.
const stepsBack = 16

// completes finds the rest of the failing step; nil where no earlier step is like it.
func (c *Case) completes() *Rest {
	ends := c.stepEnds()
	last := -1
	for s, e := range ends {
		if e < c.OOM.Event {
			last = s
		}
	}
	failing := c.asksFor(c.stepBegin(), c.OOM.Event)
	for s := last; s >= 0 && s > last-stepsBack; s-- {
		from := -1
		if s > 0 {
			from = ends[s-1]
		}
		like := c.asksFor(from, ends[s])
		if at := c.sameUpTo(failing, like); at >= 0 {
			return c.continued(failing, like, at, ends, s, last)
		}
	}
	return nil
}

// stepEnds are the ends of training steps, or of batches of evaluation where one of those failed.
func (c *Case) stepEnds() []int {
	if c.OOM.Eval {
		return c.Batches
	}
	return c.Steps
}

// stays tells what a step makes once and for all: the optimizer's state, workspaces, parameters.
func (c *Case) stays(id int) bool {
	switch c.Category[id] {
	case tape.Optimizer, tape.Workspace, tape.Parameters:
		return c.Alive(id, c.OOM.Event)
	}
	return false
}

// asksFor lists what is asked for between two events and counts for a comparison of steps.
func (c *Case) asksFor(from, to int) []int {
	var out []int
	for i := from + 1; i < to && i < len(c.Tape.Events); i++ {
		if e := &c.Tape.Events[i]; e.Kind == tape.Alloc && e.Size >= smallest && !c.stays(int(e.ID)) {
			out = append(out, int(e.ID))
		}
	}
	return out
}

// sameUpTo is the place of the failing request in an earlier step, of which everything that the failing step has asked for stands right before it; -1 where it has none. The first step may have asked for more
// before: it begins with the program.
func (c *Case) sameUpTo(failing, like []int) int {
	for at := len(failing); at < len(like); at++ {
		if !c.sameRequest(c.OOM.Stack, c.OOM.Request, like[at]) {
			continue
		}
		if slices.EqualFunc(failing, like[at-len(failing):at], func(x, y int) bool { return c.sameRequest(c.Stack[x], c.Size(x), y) }) {
			return at
		}
	}
	return -1
}

// sameRequest compares a request with an allocation. That of a failure is recorded in whole blocks.
func (c *Case) sameRequest(stack snapshot.StackID, size units.Bytes, id int) bool {
	return roundUp(size) == roundUp(c.Size(id)) && (stack == c.Stack[id] || !c.Certain)
}

func roundUp(size units.Bytes) units.Bytes { return (size + 511) / 512 * 512 }

// continued translates what step s did after its request at a place into the failing step. What it freed of the step before it is freed of the step before the failing one.
func (c *Case) continued(failing, like []int, at int, ends []int, s, last int) *Rest {
	now := map[int]uint32{like[at]: uint32(c.Tape.Allocs)} // by allocation of the earlier step: what it is in this one
	for i, id := range failing {
		now[like[at-len(failing)+i]] = uint32(id)
	}
	if s > 0 {
		c.pair(now, ends, s-1, last)
	}
	r, elastic := &Rest{}, c.hasConvolutions()
	for i := int(c.Born[like[at]]) + 1; i <= ends[s]; i++ {
		e := c.Tape.Events[i]
		switch e.Kind {
		case tape.Alloc:
			if c.stays(int(e.ID)) {
				continue
			}
			e.Elastic = elastic && c.scratch(i)
			r.of = append(r.of, int(e.ID))
			now[int(e.ID)] = uint32(c.Tape.Allocs + len(r.of))
		case tape.Free, tape.FreeCompleted:
			if _, known := now[int(e.ID)]; !known {
				continue
			}
		default:
			continue
		}
		e.ID = now[int(e.ID)]
		r.events = append(r.events, e)
	}
	return r
}

// hasConvolutions tells a program in which cuDNN takes workspaces.
func (c *Case) hasConvolutions() bool {
	return slices.ContainsFunc(c.Origins.Stacks.Frames, func(f snapshot.Frame) bool {
		return slices.Contains(convolutions, f.Function) || strings.HasSuffix(f.File, "/nn/modules/conv.py")
	})
}

// scratch tells an allocation that is freed before anything else is asked for: nothing was computed from it. In convolutions that is a workspace, and one that is refused is done without:
// the next plan is tried (https://github.com/pytorch/pytorch/blob/v2.11.0/aten/src/ATen/native/cudnn/Conv_v8.cpp, try_plans).
func (c *Case) scratch(event int) bool {
	id := c.Tape.Events[event].ID
	for i := event + 1; i < len(c.Tape.Events) && c.Tape.Events[i].Kind != tape.Alloc; i++ {
		if c.Tape.Events[i].ID == id {
			return true
		}
	}
	return false
}

// plays plays a change to the end of the failing step, under the least that the limit can be. It reports whether every request is served, and whether this could be played at all.
func (c *Case) plays(ch change) (completes, played bool) {
	if c.Rest == nil || c.Replay == nil || ch.saves > 0 || ch.coming == nothingMore {
		return false, false
	}
	e := c.givesUp(ch)
	e.Size = c.resized(ch, e.Size)
	if e.Then = c.Rest.events; e.Then == nil {
		e.Then = []tape.Event{} // it failed at the end of the step
	}
	if c.Replay.Limit.Cap > 0 {
		e.Limit = max(c.OOM.Limit.Low, c.Replay.Limit.AtLeast)
	}
	p, ok := c.Replay.Play(e)
	return p.Passes && p.Completes, ok
}

// resized is the size of every allocation in a run with a change: as the edit has it, and where the change makes kinds of memory smaller, they are smaller in every step, not only in the one that failed: what the
// first step leaves in the allocator's cache decides what fits later.
func (c *Case) resized(ch change, edited func(uint32, units.Bytes) units.Bytes) func(uint32, units.Bytes) units.Bytes {
	dataset := c.madeBeforeBatches()
	return func(id uint32, size units.Bytes) units.Bytes {
		like, coming := int(id), false
		if k := like - c.Tape.Allocs - 1; k >= 0 {
			like, coming = c.Rest.of[k], true
		}
		switch {
		case like >= len(c.Category) || like < len(c.Tape.Initial): // the failing request has its own factor
			return edited(id, size)
		case !slices.Contains(ch.kinds, c.Category[like]), ch.samples && !c.ofSamples(size), dataset[like] || c.staysInput(like):
			return edited(uint32(like), size)
		case ch.samples && c.Batch > 0:
			return size / units.Bytes(c.Batch) * units.Bytes(math.Round(ch.by*float64(c.Batch)))
		case !coming && ch.scaled[like]:
			return edited(id, size)
		}
		return units.Bytes(float64(size) * ch.by)
	}
}

// staysInput tells an input of the first step that is still there: a data set, of which batches are taken.
func (c *Case) staysInput(id int) bool {
	return c.Category[id] == tape.Inputs && c.BornIn(id) == 0 && c.OOM.Step > 0 && c.Alive(id, c.OOM.Event)
}

// withExpandable is the setting under which a change completes the step although it does not alone: enough is free, in pieces. Empty where it does not help, or is set already.
func (c *Case) withExpandable(ch change) string {
	if c.Replay == nil || c.Replay.Conf.Expandable || ch.setting != nil {
		return ""
	}
	s, err := replay.ParseSetting("expandable_segments:True", c.Replay.Torch)
	if err != nil {
		return ""
	}
	if ch.setting = &s; c.finishes(ch) {
		return c.Replay.Torch.EnvVar() + "=" + s.Text
	}
	return ""
}

// finishes tells that a change was played to the end of the step, and that every request is served.
func (c *Case) finishes(ch change) bool {
	completes, played := c.plays(ch)
	return completes && played
}

// givesUp is the edit of a change that lets go of what steps leave behind: such a tensor is made all the same, and goes when its step is over, or, where it is what the next step begins with, when that
// has been made anew: a loop's variable holds the old one until then. Where it lay decides what fits beside it.
func (c *Case) givesUp(ch change) replay.Edit {
	ends, begin := c.stepEnds(), c.stepBegin()
	never := ch.never[:0:0]
	var early []replay.Early
	for _, id := range ch.never {
		made := id >= len(c.Tape.Initial) && int(c.Born[id]) <= begin && (c.Category[id] == tape.Activations || c.Category[id] == tape.Inputs)
		if !made {
			never = append(never, id)
			continue
		}
		end := ends[sort.SearchInts(ends, int(c.Born[id]))]
		if c.Category[id] == tape.Inputs {
			end = c.madeAnew(c.Stack[id], end)
		}
		early = append(early, replay.Early{ID: uint32(id), Event: uint32(end)})
	}
	ch.never = never
	e := ch.edit()
	e.Freed = early
	return e
}

// madeAnew is the first event after one at which a line asks for memory again; the same event where it does not.
func (c *Case) madeAnew(stack snapshot.StackID, after int) int {
	for i := after + 1; i < c.OOM.Event; i++ {
		if e := &c.Tape.Events[i]; e.Kind == tape.Alloc && c.Stack[e.ID] == stack {
			return i
		}
	}
	return after
}

// pair says which allocation of one step corresponds to which of another, where both made the same.
func (c *Case) pair(now map[int]uint32, ends []int, earlier, later int) {
	begin := func(s int) int {
		if s == 0 {
			return -1
		}
		return ends[s-1]
	}
	x, y := c.asksFor(begin(earlier), ends[earlier]), c.asksFor(begin(later), ends[later])
	n := min(len(x), len(y))
	for i := 1; i <= n; i++ { // from their ends: the first step begins with the program
		was, is := x[len(x)-i], y[len(y)-i]
		if c.Size(was) != c.Size(is) || c.Stack[was] != c.Stack[is] {
			return
		}
		if c.Died[is] == recording.NeverFreed || int(c.Died[is]) > c.OOM.Event {
			now[was] = uint32(is)
		}
	}
}
