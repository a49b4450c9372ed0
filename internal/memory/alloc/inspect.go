package alloc

import (
	"fmt"
	"slices"

	"github.com/plimsoll/plimsoll/internal/units"
)

// SegmentState is a segment as it is now, for inspection and for starting from a recorded state.
type SegmentState struct {
	Address    uint64
	Size       units.Bytes // of the address range; an expandable one holds less memory
	Stream     uint16
	Pool       uint16
	Small      bool
	Expandable bool
	Blocks     []BlockState // by address, without gaps
}

// BlockState is a part of a segment.
type BlockState struct {
	Address   uint64
	Size      units.Bytes
	Requested units.Bytes // 0 where free
	ID        uint32      // of the allocation, where not free
	Free      bool
	Pending   bool // freed, waiting for another stream
	Mapped    bool // holds memory; false only in expandable segments
}

// Segments lists everything held, by address.
func (a *Allocator) Segments() []SegmentState {
	var all []SegmentState
	for i := range a.segments {
		if a.segments[i].live {
			all = append(all, a.segmentState(&a.segments[i]))
		}
	}
	slices.SortFunc(all, func(x, y SegmentState) int {
		if x.Address < y.Address {
			return -1
		}
		return 1
	})
	return all
}

func (a *Allocator) segmentState(s *segment) SegmentState {
	p := &a.pools[s.pool]
	out := SegmentState{
		Address: s.addr, Size: s.size, Stream: s.stream, Pool: p.private, Small: p.small, Expandable: s.expandable,
	}
	for r := s.first; r != 0; r = a.blocks[r].next {
		b := &a.blocks[r]
		state := BlockState{
			Address: b.addr, Size: b.size, Free: b.state == free, Pending: b.state == pending, Mapped: b.mapped,
		}
		if b.state != free {
			state.ID, state.Requested = b.id, b.requested
		}
		out.Blocks = append(out.Blocks, state)
	}
	return out
}

// Check looks for damage: blocks that do not tile their segments, free neighbours that were not merged,
// counters that differ from the blocks. It is meant for tests; nil is well.
func (a *Allocator) Check() error {
	var sum Stats
	for _, s := range a.Segments() {
		if err := s.check(&sum); err != nil {
			return fmt.Errorf("segment %#x: %w", s.Address, err)
		}
	}
	now := a.stats
	if sum.Allocated != now.Allocated || sum.Active != now.Active || sum.Requested != now.Requested || sum.Reserved != now.Reserved {
		return fmt.Errorf("counters are %+v but the blocks sum to %+v", now, sum)
	}
	if sum.Segments != now.Segments {
		return fmt.Errorf("%d segments counted, %d there", now.Segments, sum.Segments)
	}
	return a.checkSets()
}

func (s *SegmentState) check(sum *Stats) error {
	at, mapped := s.Address, units.Bytes(0)
	for i, b := range s.Blocks {
		if b.Address != at || b.Size <= 0 {
			return fmt.Errorf("block %d lies at %#x, the one before ends at %#x", i, b.Address, at)
		}
		if i > 0 && b.Free && s.Blocks[i-1].Free && b.Mapped == s.Blocks[i-1].Mapped {
			return fmt.Errorf("free blocks %d and %d were not merged", i-1, i)
		}
		at += uint64(b.Size)
		if b.Mapped {
			mapped += b.Size
		}
		if !b.Free {
			sum.Active += b.Size
			sum.Requested += b.Requested
			if !b.Pending {
				sum.Allocated += b.Size
			}
		}
	}
	if at != s.Address+uint64(s.Size) {
		return fmt.Errorf("blocks end at %#x, the segment at %#x", at, s.Address+uint64(s.Size))
	}
	sum.Reserved += mapped
	if mapped > 0 {
		sum.Segments++
	}
	return nil
}

// checkSets compares the free sets with the blocks.
func (a *Allocator) checkSets() error {
	inSets, inBlocks := 0, 0
	for i := range a.pools {
		for _, sets := range [][]freeSet{a.pools[i].free, a.pools[i].unmapped} {
			for j := range sets {
				inSets += sets[j].n
			}
		}
	}
	for _, s := range a.Segments() {
		for _, b := range s.Blocks {
			if b.Free {
				inBlocks++
			}
		}
	}
	if inSets != inBlocks {
		return fmt.Errorf("%d blocks in the free sets, %d free blocks in the segments", inSets, inBlocks)
	}
	return nil
}
