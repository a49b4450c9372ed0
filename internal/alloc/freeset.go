package alloc

import (
	"sort"

	"github.com/plimsoll/plimsoll/internal/units"
)

// item is a block in a free set, ordered by size, order, address.
type item struct {
	size  units.Bytes
	addr  uint64
	order uint32
	block ref
}

func (a item) less(b item) bool {
	if a.size != b.size {
		return a.size < b.size
	}
	if a.order != b.order {
		return a.order < b.order
	}
	return a.addr < b.addr
}

// freeSet is the ordered set of free blocks of one pool and stream: std::set<Block*, Comparison> in the
// original. It is a list of sorted runs, so that neither inserting nor removing allocates once it has grown.
type freeSet struct {
	runs  []*run
	spare []*run
	n     int
}

const runLength = 32

type run struct {
	n     int
	items [runLength]item
}

// place points at an item of a freeSet.
type place struct{ run, i int }

// seek finds the first item that is not less than it.
func (s *freeSet) seek(it item) place {
	lo, hi := 0, len(s.runs)
	for lo < hi { // the first run whose last item is not less
		m := int(uint(lo+hi) >> 1)
		r := s.runs[m]
		if r.items[r.n-1].less(it) {
			lo = m + 1
		} else {
			hi = m
		}
	}
	if lo == len(s.runs) {
		return place{lo, 0}
	}
	return place{lo, s.runs[lo].seek(it)}
}

func (r *run) seek(it item) int {
	lo, hi := 0, r.n
	for lo < hi {
		m := int(uint(lo+hi) >> 1)
		if r.items[m].less(it) {
			lo = m + 1
		} else {
			hi = m
		}
	}
	return lo
}

// at is the block at a place, 0 past the end.
func (s *freeSet) at(p place) ref {
	if p.run >= len(s.runs) {
		return 0
	}
	return s.runs[p.run].items[p.i].block
}

func (s *freeSet) next(p place) place {
	if p.i++; p.i < s.runs[p.run].n {
		return p
	}
	return place{p.run + 1, 0}
}

func (s *freeSet) insert(it item) {
	s.n++
	if len(s.runs) == 0 {
		r := s.newRun()
		r.items[0], r.n = it, 1
		s.runs = append(s.runs, r)
		return
	}
	p := s.seek(it)
	if p.run == len(s.runs) {
		p.run--
		p.i = s.runs[p.run].n
	}
	r := s.runs[p.run]
	if r.n == runLength {
		p = s.halve(p)
		r = s.runs[p.run]
	}
	copy(r.items[p.i+1:r.n+1], r.items[p.i:r.n])
	r.items[p.i] = it
	r.n++
}

// halve splits the full run at p and gives the place p has become.
func (s *freeSet) halve(p place) place {
	left, right := s.runs[p.run], s.newRun()
	right.n = copy(right.items[:], left.items[runLength/2:])
	left.n = runLength / 2
	s.runs = append(s.runs, nil)
	copy(s.runs[p.run+2:], s.runs[p.run+1:])
	s.runs[p.run+1] = right
	if p.i > left.n {
		return place{p.run + 1, p.i - left.n}
	}
	return p
}

// remove takes an item out; one that is not there is left alone.
func (s *freeSet) remove(it item) {
	p := s.seek(it)
	if s.at(p) != it.block {
		return
	}
	s.removeAt(p)
}

func (s *freeSet) removeAt(p place) {
	r := s.runs[p.run]
	copy(r.items[p.i:], r.items[p.i+1:r.n])
	r.n--
	s.n--
	if r.n > 0 {
		return
	}
	s.runs = append(s.runs[:p.run], s.runs[p.run+1:]...)
	s.spare = append(s.spare, r)
}

func (s *freeSet) newRun() *run {
	if n := len(s.spare); n > 0 {
		r := s.spare[n-1]
		s.spare = s.spare[:n-1]
		r.n = 0
		return r
	}
	return &run{}
}

// appendAll appends the blocks in order.
func (s *freeSet) appendAll(to []ref) []ref {
	for _, r := range s.runs {
		for _, it := range r.items[:r.n] {
			to = append(to, it.block)
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
