// Package recording turns the history of one device in a PyTorch snapshot into a tape.
//
// It takes a snapshot and a device and returns a Recording: the tape, and beside it what only a recording knows
// (addresses, stacks, the segments PyTorch obtained and returned). Where the history does not reach back to the start of the process (the ring
// buffer overflowed, or recording began late) the allocations that were alive before it are found from the frees and from
// the final segments, and the Recording says that it is incomplete. Nothing is guessed: an event that contradicts the history is counted as such.
package recording

import (
	"maps"
	"slices"

	"github.com/plimsoll/plimsoll/internal/memory/tape"
	"github.com/plimsoll/plimsoll/internal/units"
	"github.com/plimsoll/plimsoll/snapshot"
)

// Recording is the history of one device as a tape.
type Recording struct {
	Device   int
	Snapshot *snapshot.Snapshot
	Trace    *snapshot.Trace
	Tape     tape.Tape

	Event []uint32           // trace event of each tape event
	Addr  []uint64           // address of each allocation, by ID
	Stack []snapshot.StackID // stack of each allocation, by ID; 0 where unknown
	Born  []uint32           // tape event of each Alloc, by ID; 0 for the Initial ones
	Died  []uint32           // tape event of each Free, by ID; NeverFreed for those alive at the end

	// Reserved is what PyTorch reserved by PyTorch when the history began.
	Reserved units.Bytes
	// Complete says that the history begins with nothing allocated and nothing reserved.
	Complete bool
	// Contradictions counts events that do not fit the history: an alloc at a live address, a free of nothing that could be there, or of another size.
	Contradictions int
}

// NeverFreed marks an allocation that is alive at the end.
const NeverFreed = ^uint32(0)

// Devices lists the devices of a snapshot that have a history or segments.
func Devices(s *snapshot.Snapshot) []int {
	seen := map[int]bool{}
	for d := range s.Traces {
		if s.Traces[d].Len() > 0 {
			seen[d] = true
		}
	}
	for i := range s.Segments {
		seen[s.Segments[i].Device] = true
	}
	return slices.Sorted(maps.Keys(seen))
}

// New makes a recording of one device. Without a history it holds the final state as Initial allocations.
func New(s *snapshot.Snapshot, device int) *Recording {
	r := &Recording{Device: device, Snapshot: s, Trace: &snapshot.Trace{}}
	if device < len(s.Traces) {
		r.Trace = &s.Traces[device]
	}
	b := newBuilder(r)
	b.reserved()
	b.initial()
	b.events()
	return r
}

// Size is the size of an allocation as it was asked for.
func (r *Recording) Size(id int) units.Bytes {
	if id < len(r.Tape.Initial) {
		return r.Tape.Initial[id].Size
	}
	return r.Tape.Events[r.Born[id]].Size
}
