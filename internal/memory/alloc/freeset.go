package alloc

import (
	"math/bits"
	"sort"

	"github.com/plimsoll/plimsoll/internal/units"
)

// item is a block in a free set, ordered by size, order, address.
type item struct {
	size units.Bytes
	rank
}

// rank orders items of one size.
type rank struct {
	addr  uint64
	order uint32
	block ref
}

func (a item) less(b item) bool {
	if a.size != b.size {
		return a.size < b.size
	}
	return a.rank.less(b.rank)
}

func (a rank) less(b rank) bool {
	if a.order != b.order {
		return a.order < b.order
	}
	if a.addr != b.addr {
		return a.addr < b.addr
	}
	return a.block < b.block // only a recording that contradicts itself gives two blocks one address
}

// freeSet is the ordered set of free blocks of one pool and stream: std::set<Block*, Comparison> in the
// original. Blocks lie in bins by size, eight to a power of two, and sorted in each bin. Most bins hold one block at most, which lies in the
// bin itself: most searches look at nothing else. Nothing is allocated once the set has grown.
type freeSet struct {
	bins  []bin
	full  [binWords]uint64 // which bins hold blocks
	spare spareRuns
	n     int
}

// bin holds items of about one size.
type bin struct {
	first item     // the least of them
	rest  *runList // the others; nil: there have never been any
}

const (
	binWords = 7
	binCount = 64 * binWords
)

// binOf is the bin of a size; larger sizes are never in lower bins.
func binOf(size units.Bytes) int {
	quanta := uint64(size) / minBlock
	if quanta < 16 {
		return int(quanta)
	}
	octave := bits.Len64(quanta) - 4
	return min(8*octave+int(quanta>>octave), binCount-1)
}

// place points at an item of a freeSet: the first of a bin, or one of the rest.
type place struct {
	bin    int
	beyond bool // the first
	spot
}

// holds tells whether there is anything in a bin.
func (s *freeSet) holds(b int) bool { return s.full[b/64]>>(b%64)&1 != 0 }

// seek finds the first item that is not less than it.
func (s *freeSet) seek(it item) place {
	b := binOf(it.size)
	if s.holds(b) {
		if !s.bins[b].first.less(it) {
			return place{bin: b}
		}
		if rest := s.bins[b].rest; rest != nil {
			if p := rest.seek(it); p.run < len(rest.runs) {
				return place{b, true, p}
			}
		}
	}
	return s.firstAbove(b)
}

// firstAbove is the first item of the bins above b.
func (s *freeSet) firstAbove(b int) place {
	b++
	for w := b / 64; w < binWords; w++ {
		if rest := s.full[w] >> (b % 64); rest != 0 {
			return place{bin: b + bits.TrailingZeros64(rest)}
		}
		b = 64 * (w + 1)
	}
	return place{bin: binCount}
}

// at is the block at a place, 0 past the end.
func (s *freeSet) at(p place) ref {
	switch {
	case p.bin >= len(s.bins):
		return 0
	case !p.beyond:
		return s.bins[p.bin].first.block
	}
	return s.bins[p.bin].rest.runs[p.run].ranks[p.i].block
}

func (s *freeSet) next(p place) place {
	rest := s.bins[p.bin].rest
	switch {
	case rest == nil:
		return s.firstAbove(p.bin)
	case !p.beyond:
		p.beyond = true
	default:
		if p.i++; p.i == rest.runs[p.run].n {
			p.run, p.i = p.run+1, 0
		}
	}
	if p.run < len(rest.runs) {
		return p
	}
	return s.firstAbove(p.bin)
}

func (s *freeSet) insert(it item) {
	if s.bins == nil {
		s.bins = make([]bin, binCount)
	}
	s.n++
	b := binOf(it.size)
	bin := &s.bins[b]
	if !s.holds(b) {
		s.full[b/64] |= 1 << (b % 64)
		bin.first = it
		return
	}
	if it.less(bin.first) {
		it, bin.first = bin.first, it
	}
	if bin.rest == nil {
		bin.rest = &runList{}
	}
	bin.rest.insert(it, &s.spare)
}

// remove takes an item out; one that is not there is left alone.
func (s *freeSet) remove(it item) {
	if p := s.seek(it); s.at(p) == it.block {
		s.removeAt(p)
	}
}

func (s *freeSet) removeAt(p place) {
	s.n--
	bin := &s.bins[p.bin]
	switch {
	case p.beyond:
		bin.rest.remove(p.spot, &s.spare)
	case bin.rest != nil && len(bin.rest.runs) > 0:
		bin.first = bin.rest.runs[0].item(0)
		bin.rest.remove(spot{}, &s.spare)
	default:
		s.full[p.bin/64] &^= 1 << (p.bin % 64)
	}
}

// appendAll appends the blocks in order.
func (s *freeSet) appendAll(to []ref) []ref {
	for p := s.firstAbove(-1); p.bin < binCount; p = s.next(p) {
		to = append(to, s.at(p))
	}
	return to
}

// streamOrder lists the streams of a pool as the original's set orders them: by handle.
func (a *Allocator) streamOrder(sets []freeSet) []int {
	order := make([]int, len(sets))
	for i := range order {
		order[i] = i
	}
	handle := func(i int) uint64 {
		if i < len(a.policy.Streams) {
			return a.policy.Streams[i]
		}
		return uint64(i)
	}
	sort.Slice(order, func(x, y int) bool { return handle(order[x]) < handle(order[y]) })
	return order
}
