package alloc

import (
	"fmt"

	"github.com/plimsoll/plimsoll/internal/units"
)

// Restore lets an allocator that holds nothing begin with the segments and blocks of a recorded state. Ages of
// free blocks start at zero, since no recording has them; segments count as created in the order given. A state
// whose blocks do not tile its segments is refused.
func (a *Allocator) Restore(state []SegmentState) error {
	if a.created != 0 {
		return fmt.Errorf("restore: the allocator already holds segments")
	}
	for i := range state {
		if err := a.restoreSegment(&state[i]); err != nil {
			return fmt.Errorf("restore segment %#x: %w", state[i].Address, err)
		}
	}
	a.ResetPeaks()
	a.stats.DeviceAllocs = 0
	return nil
}

func (a *Allocator) restoreSegment(s *SegmentState) error {
	if err := s.check(&Stats{}); err != nil {
		return err
	}
	p := a.poolOf(s.Pool, s.Small)
	seg := a.newSegment(segment{addr: s.Address, size: s.Size, pool: p, stream: s.Stream, expandable: s.Expandable})
	last, mapped := ref(0), units.Bytes(0)
	for _, b := range s.Blocks {
		r := a.newBlock(block{
			addr: b.Address, size: b.Size, prev: last, segment: seg, pool: p, stream: s.Stream, mapped: b.Mapped,
		})
		if last == 0 {
			a.segments[seg].first = r
		} else {
			a.blocks[last].next = r
		}
		last = r
		if b.Mapped {
			mapped += b.Size
		}
		a.restoreBlock(r, b)
	}
	a.segments[seg].mapped = mapped
	if mapped > 0 {
		a.stats.reserved(mapped)
		a.stats.segmentCount(1)
	}
	return nil
}

func (a *Allocator) restoreBlock(r ref, b BlockState) {
	switch {
	case b.Free && b.Mapped:
		a.insert(r)
	case b.Free:
		a.insertUnmapped(r)
	default:
		blk := &a.blocks[r]
		blk.state, blk.id, blk.requested = allocated, b.ID, b.Requested
		a.bind(b.ID, r)
		a.stats.handedOut(b.Size, b.Requested)
		if b.Pending {
			a.stats.Allocated -= b.Size
			a.wait(r)
		}
	}
}

// SetCap changes the memory fraction of a running allocator: set_per_process_memory_fraction.
func (a *Allocator) SetCap(limit units.Bytes) { a.policy.Cap, a.cap = limit, limit }

// Fits tells whether a cached block would serve a request now, without taking it.
func (a *Allocator) Fits(size units.Bytes, stream, pool uint16) bool {
	r := a.request(size, stream, pool)
	sets := a.pools[r.pool].free
	if int(stream) >= len(sets) {
		return false
	}
	_, b := a.find(&sets[stream], &r)
	return b != 0
}

// SegmentFor is what a request would ask of the device: 2 MiB for the small pool, 20 MiB up to 10 MiB, the
// request rounded up above.
func (a *Allocator) SegmentFor(size units.Bytes) units.Bytes {
	return a.conf.segmentSize(a.Rounded(size))
}
