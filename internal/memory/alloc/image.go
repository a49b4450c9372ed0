package alloc

import (
	"slices"

	"github.com/plimsoll/plimsoll/internal/units"
)

// An image is what an allocator holds, word by word: its segments in the order they were created, each followed by its blocks. Addresses are not in it, only
// their order is, since nothing else of them decides what happens next: two allocators of one policy with the same image behave alike from there on.
//
// A word is a kind in its two highest bits and, of a block, the name of what lies in it and its size; of a segment, what kind of segment it is.
const (
	imageFree     uint64 = iota << imageKindAt
	imageLive            // a block that is handed out
	imageUnmapped        // address space of an expandable segment
	imageSegment
	imageKind = ^uint64(1<<imageKindAt - 1)

	imageKindAt = 62
	imageNameAt = 42
	imageSize   = 1<<imageNameAt - 1
	imageNames  = 1 << (imageKindAt - imageNameAt)
)

// Image appends the image to a slice. names says what to call the ids of allocations. Where the state cannot be told by an image (more than one stream or pool,
// blocks that wait for a stream, ages that count, addresses that somebody else decides), it reports false.
func (a *Allocator) Image(to []uint64, names []uint32) ([]uint64, bool) {
	if a.placed || a.pending != 0 || len(a.pools) > 2 || a.collects() {
		return to, false
	}
	for _, s := range a.inOrder() {
		seg := &a.segments[s]
		head := imageSegment | uint64(seg.pool)<<1
		if seg.expandable {
			head |= 1
		}
		to = append(to, head)
		for r := seg.first; r != 0; r = a.blocks[r].next {
			b := &a.blocks[r]
			word := uint64(b.size)
			switch {
			case b.state == allocated:
				name := uint64(names[b.id])
				if name >= imageNames {
					return to, false
				}
				word |= imageLive | name<<imageNameAt
			case !b.mapped:
				word |= imageUnmapped
			}
			if b.size > imageSize || b.stream != 0 {
				return to, false
			}
			to = append(to, word)
		}
	}
	return to, true
}

// inOrder lists live segments in the order they were created. The list is valid until the next call.
func (a *Allocator) inOrder() []int32 {
	a.order = a.order[:0]
	sorted, last := true, uint32(0)
	for i := range a.segments {
		if s := &a.segments[i]; s.live {
			sorted = sorted && s.order >= last
			last = s.order
			a.order = append(a.order, int32(i))
		}
	}
	if !sorted {
		slices.SortFunc(a.order, func(x, y int32) int { return int(a.segments[x].order) - int(a.segments[y].order) })
	}
	return a.order
}

// Reload makes the allocator hold what an image of its own says. id says which allocation a name is now; counters of events go on, peaks begin anew. What was
// requested of a block is not in an image: all of it, from now on.
func (a *Allocator) Reload(image []uint64, id func(name uint32) uint32) {
	a.clear()
	seg, last := int32(0), ref(0)
	for at, word := range image {
		if word&imageKind == imageSegment {
			seg, last = a.reloadSegment(word, image[at+1:]), 0
			continue
		}
		s := &a.segments[seg]
		b := block{
			addr: s.addr, size: units.Bytes(word & imageSize), prev: last, segment: seg, pool: s.pool, mapped: word&imageKind != imageUnmapped,
		}
		if last != 0 {
			b.addr = a.blocks[last].addr + uint64(a.blocks[last].size)
		}
		r := a.newBlock(b)
		if last == 0 {
			s.first = r
		} else {
			a.blocks[last].next = r
		}
		last = r
		switch word & imageKind {
		case imageFree:
			a.insert(r)
		case imageUnmapped:
			a.insertUnmapped(r)
		default:
			blk := &a.blocks[r]
			blk.state, blk.requested, blk.id = allocated, blk.size, id(uint32(word&^imageKind>>imageNameAt))
			a.bind(blk.id, r)
			a.stats.handedOut(blk.size, blk.size)
		}
	}
	a.ResetPeaks()
}

// reloadSegment makes the segment of a word; rest begins with its blocks.
func (a *Allocator) reloadSegment(word uint64, rest []uint64) int32 {
	s := segment{pool: int32(word &^ imageKind >> 1), expandable: word&1 != 0}
	for _, w := range rest {
		if w&imageKind == imageSegment {
			break
		}
		size := units.Bytes(w & imageSize)
		s.size += size
		if w&imageKind != imageUnmapped {
			s.mapped += size
		}
	}
	if s.expandable {
		s.addr = a.policy.Addresses.Reserve(s.size)
	} else {
		s.addr = a.policy.Addresses.Segment(s.size)
	}
	if s.mapped > 0 {
		a.stats.Reserved += s.mapped
		a.stats.Segments++
	}
	return a.newSegment(s)
}

// clear forgets everything held.
func (a *Allocator) clear() {
	for r := range a.blocks {
		if b := &a.blocks[r]; b.state == allocated {
			a.live[b.id] = 0
		}
	}
	a.blocks, a.spare, a.segments, a.vacant, a.created = append(a.blocks[:0], block{}), a.spare[:0], a.segments[:0], a.vacant[:0], 0
	for i := range a.pools {
		for _, sets := range [][]freeSet{a.pools[i].free, a.pools[i].unmapped} {
			for k := range sets {
				sets[k].clear()
			}
		}
	}
	a.policy.Addresses = Decreasing()
	a.stats.Requested, a.stats.Allocated, a.stats.Active, a.stats.Reserved, a.stats.Segments = 0, 0, 0, 0, 0
}

// clear empties the set.
func (s *freeSet) clear() {
	for p := s.firstAbove(-1); p.bin < binCount; p = s.firstAbove(p.bin) {
		if rest := s.bins[p.bin].rest; rest != nil {
			s.spare = append(s.spare, rest.runs...)
			rest.runs, rest.tops = rest.runs[:0], rest.tops[:0]
		}
	}
	s.full, s.n = [binWords]uint64{}, 0
}
