// Package timeline tells the story of a recording: how much memory was in use when, what for, and whose.
//
// It takes a recording and the origins of its stacks and returns the peaks, the steps and phases of training, the category of every
// allocation, what was alive at an instant grouped by the line that asked for it, and what stayed alive from step to
// step. Categories come from stacks, order and lifetimes; where no stacks were recorded they come from lifetimes and
// annotations alone, and Certain is false.
package timeline

import (
	"sort"

	"github.com/plimsoll/plimsoll/internal/evidence/callsite"
	"github.com/plimsoll/plimsoll/internal/evidence/holders"
	"github.com/plimsoll/plimsoll/internal/evidence/recording"
	"github.com/plimsoll/plimsoll/internal/memory/tape"
	"github.com/plimsoll/plimsoll/internal/units"
	"github.com/plimsoll/plimsoll/snapshot"
)

// Timeline is a recording with its story.
type Timeline struct {
	*recording.Recording
	Origins *callsite.Table

	Peak  Peak
	End   Level
	Steps []int // tape event at which each training step ended, in order
	// StepsFrom says how the steps were found: "marks" (of the probe), "annotations", "stacks", "repetition" or "" for none.
	StepsFrom string
	Batches   []int // tape event at which each batch of evaluation ended, where there are several
	// Unnamed says that no function's name told evaluation: it is a loop after training that never runs backward.
	Unnamed bool

	Category []tape.Category  // by allocation ID
	Phase    []callsite.Phase // by allocation ID: what the program was doing when it asked
	Certain  bool             // categories rest on stacks

	// Holders says who keeps what is alive at the end; nil where the probe did not look.
	Holders *holders.Match

	eval      []bool // by stack: evaluation
	marks     []mark // by tape event; nil where the probe marked none
	firstMark int    // the first marked event
}

// Stepped says that the end of every step was told by PyTorch or the probe, and not concluded from what was allocated.
func (t *Timeline) Stepped() bool { return t.StepsFrom == "marks" || t.StepsFrom == "annotations" }

// Level is how much memory is in use at an instant.
type Level struct {
	Requested units.Bytes // asked for and not yet returned to the pool
	Allocated units.Bytes // the same in whole blocks
	Reserved  units.Bytes // reserved by PyTorch
}

// Peak is the highest level of each kind, which need not be at the same instant.
type Peak struct {
	Level
	Event         int // tape event of the peak of Requested; -1 when the history is empty
	ReservedTrace int // trace event of the peak of Reserved
}

// New tells the story of a recording.
func New(r *recording.Recording, origins *callsite.Table) *Timeline {
	t := &Timeline{Recording: r, Origins: origins}
	t.levels()
	t.readMarks()
	t.findEval()
	t.findSteps()
	t.findBatches()
	t.categorize()
	return t
}

// levels finds the peaks. Requested follows PyTorch's requested_bytes counter, which falls when the block
// returns to its pool, not when the program gives it up (CUDACachingAllocator.cpp, free_block).
func (t *Timeline) levels() {
	var now, blocks units.Bytes
	for _, l := range t.Tape.Initial {
		now += l.Size
		blocks += Block(l.Size)
	}
	t.Peak = Peak{Level: Level{Requested: now, Allocated: blocks}, Event: -1, ReservedTrace: -1}
	for i := range t.Tape.Events {
		e := &t.Tape.Events[i]
		switch e.Kind {
		case tape.Alloc:
			if now += e.Size; now > t.Peak.Requested {
				t.Peak.Requested, t.Peak.Event = now, i
			}
			blocks += Block(e.Size)
			t.Peak.Allocated = max(t.Peak.Allocated, blocks)
		case tape.FreeCompleted:
			now -= e.Size
		case tape.Free:
			blocks -= Block(e.Size)
			if !e.Deferred {
				now -= e.Size
			}
		}
	}
	t.End.Requested = now
	t.reservedLevels()
}

// Block is the least a block for a request can take: a multiple of 512 bytes (CUDACachingAllocator.cpp, round_size).
// Blocks that were not split are larger; the allocator model knows which.
func Block(request units.Bytes) units.Bytes { return max(512, (request+511)/512*512) }

func (t *Timeline) reservedLevels() {
	held := int64(t.Reserved)
	peak := held
	for i, a := range t.Trace.Action {
		switch a {
		case snapshot.ActionSegmentAlloc, snapshot.ActionSegmentMap:
			if held += t.Trace.Size[i]; held > peak {
				peak, t.Peak.ReservedTrace = held, i
			}
		case snapshot.ActionSegmentFree, snapshot.ActionSegmentUnmap:
			held -= t.Trace.Size[i]
		}
	}
	t.Peak.Reserved, t.End.Reserved = units.Bytes(peak), units.Bytes(held)
	for i := range t.Snapshot.Segments {
		if s := &t.Snapshot.Segments[i]; s.Device == t.Device {
			t.End.Allocated += units.Bytes(s.AllocatedSize)
		}
	}
}

// Alive tells whether an allocation holds memory just after a tape event (-1: before the first).
func (t *Timeline) Alive(id int, event int) bool {
	if id >= len(t.Tape.Initial) && int(t.Born[id]) > event {
		return false
	}
	return t.Died[id] == recording.NeverFreed || int(t.Died[id]) > event
}

// StepOf tells in which step a tape event lies, counted from 0; events after the last step's end are in step len(Steps).
func (t *Timeline) StepOf(event int) int { return sort.SearchInts(t.Steps, event) }

// BornIn tells the step an allocation was made in; -1 for those made before the history.
func (t *Timeline) BornIn(id int) int {
	if id < len(t.Tape.Initial) {
		return -1
	}
	return t.StepOf(int(t.Born[id]))
}

// ReservedAt is what was reserved by PyTorch when a tape event happened.
func (t *Timeline) ReservedAt(event int) units.Bytes {
	end := 0
	if event >= 0 && event < len(t.Event) {
		end = int(t.Event[event])
	}
	held := int64(t.Reserved)
	for i := range end {
		switch t.Trace.Action[i] {
		case snapshot.ActionSegmentAlloc, snapshot.ActionSegmentMap:
			held += t.Trace.Size[i]
		case snapshot.ActionSegmentFree, snapshot.ActionSegmentUnmap:
			held -= t.Trace.Size[i]
		}
	}
	return units.Bytes(held)
}

// RequestedAt is what was asked for and alive when a tape event had happened.
func (t *Timeline) RequestedAt(event int) units.Bytes {
	var sum units.Bytes
	for id := range t.Died {
		if t.Alive(id, event) {
			sum += t.Size(id)
		}
	}
	return sum
}
