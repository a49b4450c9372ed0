package alloc

import "github.com/plimsoll/plimsoll/internal/units"

// expand serves a request from an expandable segment, mapping the pages that are missing:
// try_allocate_expandable_block. The rounded request counts here, not the segment size.
func (a *Allocator) expand(r *request) ref {
	b := a.findSpace(r)
	if !a.blocks[b].mapped && !a.mapPages(b, min(a.blocks[b].size, r.size)) {
		return 0
	}
	for a.blocks[b].size < r.size {
		// b is free and mapped, its successor unmapped: map some of it, which merges the two.
		next := a.blocks[b].next
		missing := min(r.size-a.blocks[b].size, a.blocks[next].size)
		if !a.mapPages(next, missing) {
			return 0 // what earlier rounds mapped stays mapped and cached
		}
		b = next
	}
	a.remove(b)
	return b
}

// findSpace finds the lowest run of free and unmapped blocks that can hold a request, or starts a new
// segment: find_expandable_block.
func (a *Allocator) findSpace(r *request) ref {
	set := freeOf(&a.pools[r.pool].unmapped, r.stream)
	for at := set.seek(item{}); set.at(at) != 0; at = set.next(at) {
		b := set.at(at)
		if prev := a.blocks[b].prev; prev != 0 && a.blocks[prev].state == free {
			b = prev
		}
		if a.hasRoom(b, r.size) {
			return b
		}
	}
	return a.reserve(r)
}

func (a *Allocator) hasRoom(b ref, size units.Bytes) bool {
	var room units.Bytes
	for room < size && b != 0 && a.blocks[b].state == free {
		room += a.blocks[b].size
		b = a.blocks[b].next
	}
	return room >= size
}

// reserve takes address space for a new expandable segment: nine eighths of the device, in whole pages.
func (a *Allocator) reserve(r *request) ref {
	size := a.policy.Total + a.policy.Total/8
	size = roundUp(max(size, r.size), a.page(r.pool))
	addr := a.policy.Addresses.Reserve(size)
	seg := a.newSegment(segment{addr: addr, size: size, pool: r.pool, stream: r.stream, expandable: true})
	b := a.newBlock(block{addr: addr, size: size, segment: seg, pool: r.pool, stream: r.stream})
	a.segments[seg].first = b
	a.insertUnmapped(b)
	return b
}

// page is the granularity in which a pool maps memory.
func (a *Allocator) page(pool int32) units.Bytes {
	if a.pools[pool].small {
		return smallBuffer
	}
	return a.conf.LargeSegment
}

// mapPages maps the front of an unmapped block, whole pages that hold size bytes: map_block. The block then
// merges with free neighbours and is in the free set.
func (a *Allocator) mapPages(r ref, size units.Bytes) bool {
	b := &a.blocks[r]
	size = min(roundUp(size, a.page(b.pool)), b.size)
	if a.overDevice(size) {
		return false
	}
	a.removeUnmapped(r)
	if size < b.size {
		a.spliceAfter(r, size, false)
		b = &a.blocks[r]
	}
	b.mapped = true
	addr := b.addr
	a.mappedBytes(b.segment, size)
	a.tell(SegmentMap, addr, size, b.stream)
	a.merge(r, b.prev)
	a.merge(r, a.blocks[r].next)
	a.insert(r)
	return true
}

// spliceAfter cuts a block after keep bytes; the rest becomes a free block of its own, mapped or not, in its set.
func (a *Allocator) spliceAfter(r ref, keep units.Bytes, mapped bool) {
	b := a.blocks[r]
	rest := a.newBlock(block{
		addr: b.addr + uint64(keep), size: b.size - keep, prev: r, next: b.next,
		segment: b.segment, pool: b.pool, stream: b.stream, mapped: mapped,
	})
	if b.next != 0 {
		a.blocks[b.next].prev = rest
	}
	a.blocks[r].next, a.blocks[r].size = rest, keep
	if mapped {
		a.insert(rest)
	} else {
		a.insertUnmapped(rest)
	}
}

// spliceBefore cuts size bytes off the front of a block; they become a free mapped block of their own.
func (a *Allocator) spliceBefore(r ref, size units.Bytes) {
	b := a.blocks[r]
	front := a.newBlock(block{
		addr: b.addr, size: size, prev: b.prev, next: r,
		segment: b.segment, pool: b.pool, stream: b.stream, mapped: true,
	})
	if b.prev != 0 {
		a.blocks[b.prev].next = front
	} else {
		a.segments[b.segment].first = front
	}
	blk := &a.blocks[r]
	blk.prev, blk.addr, blk.size = front, b.addr+uint64(size), b.size-size
	a.insert(front)
}

// unmapPages gives back the whole pages inside a free block: unmap_block. The ends that share a page with a
// neighbour stay mapped. A segment without memory disappears.
func (a *Allocator) unmapPages(r ref) {
	b := &a.blocks[r]
	base, page := a.segments[b.segment].addr, uint64(a.page(b.pool))
	from := (b.addr - base + page - 1) / page * page
	to := (b.addr - base + uint64(b.size)) / page * page
	if to <= from {
		return
	}
	a.remove(r)
	before, size := units.Bytes(base+from-b.addr), units.Bytes(to-from)
	if before > 0 {
		a.spliceBefore(r, before)
	}
	if a.blocks[r].size > size {
		a.spliceAfter(r, size, true)
	}
	b = &a.blocks[r]
	b.mapped = false
	a.merge(r, b.prev)
	a.merge(r, a.blocks[r].next)
	a.insertUnmapped(r)
	b = &a.blocks[r]
	a.mappedBytes(b.segment, -size)
	a.tell(SegmentUnmap, base+from, size, b.stream)
	if !b.split() {
		a.removeUnmapped(r)
		a.policy.Addresses.Release(b.addr, b.size)
		a.dropSegment(b.segment)
		a.dropBlock(r)
	}
}

// mappedBytes accounts for pages mapped (or, negative, unmapped) in an expandable segment.
func (a *Allocator) mappedBytes(seg int32, change units.Bytes) {
	s := &a.segments[seg]
	if s.mapped == 0 {
		a.stats.segmentCount(1)
	}
	s.mapped += change
	if s.mapped == 0 {
		a.stats.segmentCount(-1)
	}
	a.stats.reserved(change)
}
