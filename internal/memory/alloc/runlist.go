package alloc

import "github.com/plimsoll/plimsoll/internal/units"

// runList is a sorted list in short runs, so that neither inserting nor removing moves much.
type runList struct {
	runs []*run
	tops []item // the last item of each run
}

const runLength = 32

// run holds items in order; sizes lie together, since most of a search looks at nothing else.
type run struct {
	n     int
	sizes [runLength]units.Bytes
	ranks [runLength]rank
}

func (r *run) item(i int) item { return item{r.sizes[i], r.ranks[i]} }

// spot points at an item of a runList.
type spot struct{ run, i int }

// seek finds the first item that is not less than it.
func (l *runList) seek(it item) spot {
	lo, hi := 0, len(l.tops)
	for lo < hi { // the first run whose last item is not less
		m := int(uint(lo+hi) >> 1)
		if l.tops[m].less(it) {
			lo = m + 1
		} else {
			hi = m
		}
	}
	if lo == len(l.runs) {
		return spot{lo, 0}
	}
	return spot{lo, l.runs[lo].seek(it)}
}

// seek finds the first item of the run that is not less.
func (r *run) seek(it item) int {
	lo, hi := 0, r.n
	for lo < hi {
		m := int(uint(lo+hi) >> 1)
		if r.sizes[m] < it.size || r.sizes[m] == it.size && r.ranks[m].less(it.rank) {
			lo = m + 1
		} else {
			hi = m
		}
	}
	return lo
}

// insert puts an item in its place.
func (l *runList) insert(it item, spare *spareRuns) {
	if len(l.runs) == 0 {
		l.runs, l.tops = append(l.runs, spare.take()), append(l.tops, item{})
	}
	p := l.seek(it)
	if p.run == len(l.runs) {
		p.run--
		p.i = l.runs[p.run].n
	}
	r := l.runs[p.run]
	if r.n == runLength {
		p = l.halve(p, spare)
		r = l.runs[p.run]
	}
	copy(r.sizes[p.i+1:r.n+1], r.sizes[p.i:r.n])
	copy(r.ranks[p.i+1:r.n+1], r.ranks[p.i:r.n])
	r.sizes[p.i], r.ranks[p.i] = it.size, it.rank
	r.n++
	l.tops[p.run] = r.item(r.n - 1)
}

// halve splits the full run at p and gives the spot p has become.
func (l *runList) halve(p spot, spare *spareRuns) spot {
	left, right := l.runs[p.run], spare.take()
	right.n = copy(right.sizes[:], left.sizes[runLength/2:])
	copy(right.ranks[:], left.ranks[runLength/2:])
	left.n = runLength / 2
	l.runs, l.tops = append(l.runs, nil), append(l.tops, item{})
	copy(l.runs[p.run+2:], l.runs[p.run+1:])
	copy(l.tops[p.run+1:], l.tops[p.run:])
	l.runs[p.run+1] = right
	l.tops[p.run] = left.item(left.n - 1)
	if p.i > left.n {
		return spot{p.run + 1, p.i - left.n}
	}
	return p
}

// remove takes out the item at a spot.
func (l *runList) remove(p spot, spare *spareRuns) {
	r := l.runs[p.run]
	copy(r.sizes[p.i:], r.sizes[p.i+1:r.n])
	copy(r.ranks[p.i:], r.ranks[p.i+1:r.n])
	if r.n--; r.n > 0 {
		l.tops[p.run] = r.item(r.n - 1)
		return
	}
	l.runs = append(l.runs[:p.run], l.runs[p.run+1:]...)
	l.tops = append(l.tops[:p.run], l.tops[p.run+1:]...)
	*spare = append(*spare, r)
}

// spareRuns are runs without items, kept for later.
type spareRuns []*run

func (s *spareRuns) take() *run {
	n := len(*s)
	if n == 0 {
		return &run{}
	}
	r := (*s)[n-1]
	*s = (*s)[:n-1]
	r.n = 0
	return r
}
