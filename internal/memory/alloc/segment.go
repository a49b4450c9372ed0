package alloc

import "github.com/plimsoll/plimsoll/internal/units"

// SegmentKind says what happened to a segment.
type SegmentKind uint8

// Kinds of segment events, as PyTorch's memory history records them.
const (
	SegmentAlloc SegmentKind = iota
	SegmentFree
	SegmentMap
	SegmentUnmap
)

// SegmentEvent is memory taken from or given back to the device.
type SegmentEvent struct {
	Kind    SegmentKind
	Address uint64
	Size    units.Bytes
	Stream  uint16
}

// newBlockFromDevice asks the device for a block: alloc_block.
func (a *Allocator) newBlockFromDevice(r *request) ref {
	if a.overCap(r) {
		return 0
	}
	if a.expandable(&a.pools[r.pool]) {
		return a.expand(r)
	}
	if a.overDevice(r.segment) {
		return 0
	}
	addr := a.policy.Addresses.Segment(r.segment)
	seg := a.newSegment(segment{addr: addr, size: r.segment, mapped: r.segment, pool: r.pool, stream: r.stream})
	b := a.newBlock(block{addr: addr, size: r.segment, segment: seg, pool: r.pool, stream: r.stream, mapped: true})
	a.segments[seg].first = b
	a.stats.reserved(r.segment)
	a.stats.segmentCount(1)
	a.tell(SegmentAlloc, addr, r.segment, r.stream)
	return b
}

// overCap tests the memory fraction: reaching it exactly is allowed. The whole size counts, for expandable
// segments too, where part of it may be mapped already.
func (a *Allocator) overCap(r *request) bool {
	return a.cap > 0 && a.stats.Reserved+r.segment > a.cap
}

func (a *Allocator) overDevice(more units.Bytes) bool {
	return a.policy.Device > 0 && a.stats.Reserved+more > a.policy.Device
}

// release gives the segment of an unsplit free block back to the device: release_block.
func (a *Allocator) release(r ref) {
	b := &a.blocks[r]
	a.remove(r)
	a.tell(SegmentFree, b.addr, b.size, b.stream)
	a.policy.Addresses.Release(b.addr, b.size)
	a.stats.reserved(-b.size)
	a.stats.segmentCount(-1)
	a.dropSegment(b.segment)
	a.dropBlock(r)
}

func (a *Allocator) tell(kind SegmentKind, addr uint64, size units.Bytes, stream uint16) {
	if a.policy.OnSegment != nil {
		a.policy.OnSegment(SegmentEvent{kind, addr, size, stream})
	}
}
