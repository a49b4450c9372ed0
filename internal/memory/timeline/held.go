package timeline

import (
	"cmp"
	"slices"

	"github.com/plimsoll/plimsoll/internal/evidence/callsite"
	"github.com/plimsoll/plimsoll/internal/evidence/holders"
	"github.com/plimsoll/plimsoll/internal/evidence/recording"
	"github.com/plimsoll/plimsoll/internal/memory/tape"
	"github.com/plimsoll/plimsoll/internal/units"
	"github.com/plimsoll/plimsoll/snapshot"
)

// Adopt matches what the probe saw at the end of the recording with its allocations. What a role says about memory is a fact and replaces the category that
// was concluded from stacks and lifetimes.
func (t *Timeline) Adopt(f *holders.File) {
	t.Holders = holders.New(f, t.Recording)
	for id := range t.Died {
		if h := t.Holders.Holder(id); h != nil {
			if c, ok := h.Role.Category(); ok {
				t.Category[id] = c
			}
		}
	}
}

// Held is memory alive at the end of a recording that one holder keeps.
type Held struct {
	// Holder is who keeps it. Where the probe found nobody it holds what the recording tells: Role is Temporary or Library with a Kind, or empty.
	Holder holders.Holder
	IDs    []int // its allocations, in order
	Bytes  units.Bytes
	// PerStep and Each are bytes and tensors that every step adds; zero where it does not grow or no steps were seen.
	PerStep units.Bytes
	Each    float64
}

// ByHolder puts every byte alive at the end of the recording under exactly one holder, largest first; nil where the probe did not look. Parts of one graph,
// which differ by operation and module, stay apart.
func (t *Timeline) ByHolder() []Held {
	if t.Holders == nil {
		return nil
	}
	index, now := map[int]int{}, runningLines{t: t, since: map[int]int{}}
	var out []Held
	for id, died := range t.Died {
		if died != recording.NeverFreed {
			continue
		}
		key := int(t.Holders.Of[id])
		var holder holders.Holder
		if key == holders.Nobody || t.Holders.File.Holders[key].Role == holders.Temporary && t.Holders.File.Holders[key].Kind == "" {
			holder, key = t.unheld(id, key, now)
		} else {
			holder = t.Holders.File.Holders[key]
		}
		i, ok := index[key]
		if !ok {
			i = len(out)
			index[key] = i
			out = append(out, Held{Holder: holder})
		}
		out[i].IDs = append(out[i].IDs, id)
		out[i].Bytes += t.Size(id)
	}
	for i := range out {
		out[i].PerStep, out[i].Each = t.growthOf(out[i].IDs)
	}
	slices.SortStableFunc(out, func(a, b Held) int { return cmp.Compare(b.Bytes, a.Bytes) })
	return out
}

// What the recording says about memory that no name reaches.
const (
	workspaces = "workspaces of cuBLAS and cuDNN"
	buckets    = "gradient buckets of DistributedDataParallel"
	pools      = "memory pools of CUDA graphs"
	inBackward = "temporaries of the backward pass, which is running"
)

// unheld says what an allocation that no name reaches is, as far as the recording tells, and a key below Nobody for those alike; else what the probe said of it.
func (t *Timeline) unheld(id, key int, now runningLines) (holders.Holder, int) {
	library := func(kind string, key int) (holders.Holder, int) {
		return holders.Holder{Role: holders.Library, Kind: kind, Device: t.Device}, key
	}
	o := t.Origins.Of(t.Stack[id])
	switch {
	case o.Bucket:
		return library(buckets, -2)
	case t.Category[id] == tape.Workspace && t.Phase[id] != callsite.Optimizer:
		return library(workspaces, -3)
	case o.Graph:
		return library(pools, -4)
	}
	h := holders.Holder{Role: holders.Temporary, Device: t.Device}
	if i := now.of(id); i >= 0 {
		h.Name.In = &t.Holders.File.Running[i]
		return h, -16 - i
	}
	if t.Phase[id] == callsite.Backward && t.Holders.File.Phase == "backward" && t.BornIn(id) == len(t.Steps) {
		h.Kind = inBackward
		return h, -5
	}
	if key != holders.Nobody {
		return t.Holders.File.Holders[key], key
	}
	return holders.Holder{Device: t.Device}, holders.Nobody
}

// runningLines finds the lines of the user's that had not ended when the probe looked.
type runningLines struct {
	t     *Timeline
	since map[int]int // by frame of the file's Running: the last Alloc that was not made below it; from there on it has been running
}

// of finds the line that asked for an allocation and has been running ever since, among the frames the probe saw; -1: there is none. That the line runs again, in a
// later turn of a loop, does not count: something else was asked for in between.
func (r runningLines) of(id int) int {
	t := r.t
	f, ok := t.Origins.UserFrame(t.Stack[id])
	if !ok || id < len(t.Tape.Initial) || t.BornIn(id) != len(t.Steps) {
		return -1
	}
	frames := t.Holders.File.Running
	i := slices.IndexFunc(frames, func(p holders.Place) bool { return p.Line == f.Line && p.Function == f.Function && p.File == f.File })
	if i < 0 {
		return -1
	}
	if _, known := r.since[i]; !known {
		r.since[i] = t.lastOutside(frames[i])
	}
	if int(t.Born[id]) <= r.since[i] {
		return -1
	}
	return i
}

// lastOutside is the last Alloc whose stack does not have a frame; -1: all have it.
func (t *Timeline) lastOutside(p holders.Place) int {
	has := map[snapshot.StackID]bool{}
	for i := len(t.Tape.Events) - 1; i >= 0; i-- {
		e := &t.Tape.Events[i]
		if e.Kind != tape.Alloc || t.Stack[e.ID] == 0 {
			continue
		}
		stack := t.Stack[e.ID]
		inside, seen := has[stack]
		if !seen {
			inside = slices.ContainsFunc(t.Origins.Stacks.Stack(stack), func(id snapshot.FrameID) bool {
				f := &t.Origins.Stacks.Frames[id]
				return f.Line == p.Line && f.Function == p.Function && f.File == p.File
			})
			has[stack] = inside
		}
		if !inside {
			return i
		}
	}
	return -1
}

// leastGrowth is how many steps must each have left something behind before it is called growth.
const leastGrowth = 4

// growthOf is what each step adds to a set of allocations: the steps since its first survivor must nearly all have left one. The last two
// steps are left out: a plain loop still holds their tensors.
func (t *Timeline) growthOf(ids []int) (units.Bytes, float64) {
	last := len(t.Steps) - 2
	count, sum := map[int]int{}, units.Bytes(0)
	first, n := last, 0
	for _, id := range ids {
		if step := t.BornIn(id); step >= 0 && step < last {
			count[step]++
			first = min(first, step)
			sum += t.Size(id)
			n++
		}
	}
	span := last - first
	if len(count) < leastGrowth || 10*len(count) < 9*span {
		return 0, 0
	}
	return sum / units.Bytes(len(count)), float64(n) / float64(len(count))
}
