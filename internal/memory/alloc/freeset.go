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
// original. Blocks lie in bins by size, eight to a power of two, and sorted in each bin, so that most searches look
// at a handful of blocks; nothing is allocated once the set has grown.
type freeSet struct {
	bins  []runList
	full  [binWords]uint64 // which bins hold blocks
	spare spareRuns
	n     int
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

// place points at an item of a freeSet.
type place struct {
	bin int
	spot
}

// seek finds the first item that is not less than it.
func (s *freeSet) seek(it item) place {
	b := binOf(it.size)
	if s.full[b/64]>>(b%64)&1 != 0 {
		if p := s.bins[b].seek(it); p.run < len(s.bins[b].runs) {
			return place{b, p}
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
	if p.bin >= len(s.bins) {
		return 0
	}
	return s.bins[p.bin].runs[p.run].ranks[p.i].block
}

func (s *freeSet) next(p place) place {
	bin := &s.bins[p.bin]
	if p.i++; p.i < bin.runs[p.run].n {
		return p
	}
	if p.run, p.i = p.run+1, 0; p.run < len(bin.runs) {
		return p
	}
	return s.firstAbove(p.bin)
}

func (s *freeSet) insert(it item) {
	if s.bins == nil {
		s.bins = make([]runList, binCount)
	}
	b := binOf(it.size)
	s.full[b/64] |= 1 << (b % 64)
	s.bins[b].insert(it, &s.spare)
	s.n++
}

// remove takes an item out; one that is not there is left alone.
func (s *freeSet) remove(it item) {
	if p := s.seek(it); s.at(p) == it.block {
		s.removeAt(p)
	}
}

func (s *freeSet) removeAt(p place) {
	bin := &s.bins[p.bin]
	bin.remove(p.spot, &s.spare)
	if len(bin.runs) == 0 {
		s.full[p.bin/64] &^= 1 << (p.bin % 64)
	}
	s.n--
}

// appendAll appends the blocks in order.
func (s *freeSet) appendAll(to []ref) []ref {
	for p := s.firstAbove(-1); p.bin < binCount; p = s.firstAbove(p.bin) {
		for _, r := range s.bins[p.bin].runs {
			for _, k := range r.ranks[:r.n] {
				to = append(to, k.block)
			}
		}
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
