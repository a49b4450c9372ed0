package alloc

import (
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
// original. It is a list of sorted runs, so that neither inserting nor removing allocates once it has grown.
type freeSet struct {
	runs  []*run
	tops  []item // the last item of each run
	spare []*run
	n     int
}

const runLength = 32

// run holds items in order; sizes lie together, since most of a search looks at nothing else.
type run struct {
	n     int
	sizes [runLength]units.Bytes
	ranks [runLength]rank
}

func (r *run) item(i int) item { return item{r.sizes[i], r.ranks[i]} }

// place points at an item of a freeSet.
type place struct{ run, i int }

// seek finds the first item that is not less than it.
func (s *freeSet) seek(it item) place {
	lo, hi := 0, len(s.tops)
	for lo < hi { // the first run whose last item is not less
		m := int(uint(lo+hi) >> 1)
		if s.tops[m].less(it) {
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

// seek finds the first item of the run that is not less: by size without a branch to mispredict, then by rank.
func (r *run) seek(it item) int {
	lo, n := 0, r.n
	for n > 1 {
		half := n / 2
		if r.sizes[(lo+half-1)%runLength] < it.size {
			lo += half
		}
		n -= half
	}
	if n == 1 && r.sizes[lo%runLength] < it.size {
		lo++
	}
	for lo < r.n && r.sizes[lo] == it.size && r.ranks[lo].less(it.rank) {
		lo++
	}
	return lo
}

// at is the block at a place, 0 past the end.
func (s *freeSet) at(p place) ref {
	if p.run >= len(s.runs) {
		return 0
	}
	return s.runs[p.run].ranks[p.i].block
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
		s.runs, s.tops = append(s.runs, s.newRun()), append(s.tops, item{})
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
	copy(r.sizes[p.i+1:r.n+1], r.sizes[p.i:r.n])
	copy(r.ranks[p.i+1:r.n+1], r.ranks[p.i:r.n])
	r.sizes[p.i], r.ranks[p.i] = it.size, it.rank
	r.n++
	s.tops[p.run] = r.item(r.n - 1)
}

// halve splits the full run at p and gives the place p has become.
func (s *freeSet) halve(p place) place {
	left, right := s.runs[p.run], s.newRun()
	right.n = copy(right.sizes[:], left.sizes[runLength/2:])
	copy(right.ranks[:], left.ranks[runLength/2:])
	left.n = runLength / 2
	s.runs, s.tops = append(s.runs, nil), append(s.tops, item{})
	copy(s.runs[p.run+2:], s.runs[p.run+1:])
	copy(s.tops[p.run+1:], s.tops[p.run:])
	s.runs[p.run+1] = right
	s.tops[p.run] = left.item(left.n - 1)
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
	copy(r.sizes[p.i:], r.sizes[p.i+1:r.n])
	copy(r.ranks[p.i:], r.ranks[p.i+1:r.n])
	r.n--
	s.n--
	if r.n > 0 {
		s.tops[p.run] = r.item(r.n - 1)
		return
	}
	s.runs = append(s.runs[:p.run], s.runs[p.run+1:]...)
	s.tops = append(s.tops[:p.run], s.tops[p.run+1:]...)
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
		for _, k := range r.ranks[:r.n] {
			to = append(to, k.block)
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
