package plan

import (
	"container/heap"

	"github.com/plimsoll/plimsoll/internal/setup"
	"github.com/plimsoll/plimsoll/internal/units"
)

// solveSelective takes what costs no time for granted: the group's point that needs least memory checkpoints fewest layers.
func (s *search) solveSelective(c candidate) {
	for _, v := range c.others {
		if v.Optimizer == c.Optimizer {
			c.point, c.changes = v.point, v.changes
		}
	}
	c.others = nil
	if !c.bounded { // a number it cannot do with fewer than gives a better place in the queue
		if c.Layers, c.bounded = max(1, s.atLeast(c.point)), true; c.Layers >= s.depth(c.Cut) {
			return
		}
	} else {
		if c.Layers = s.fewest(c.point); c.Layers <= 0 {
			return
		}
		c.need, c.solved = s.need(c.point), true
	}
	var err error
	if c.took, err = s.time(c.point); err == nil {
		heap.Push(&s.queue, c)
	}
}

// atLeast is the smallest number of checkpointed layers whose bound fits; all of them where none does. What is asked for falls with every layer that is
// checkpointed.
func (s *search) atLeast(p point) int {
	depth := s.depth(p.Cut)
	none, all := s.bound(p.Checkpointed(0)), s.bound(p.Checkpointed(-1))
	switch {
	case none <= s.room:
		return 0
	case all > s.room:
		return depth
	}
	return s.falling(p.Cut, side{0, none}, side{depth, all}, func(n int) units.Bytes { return s.bound(p.Checkpointed(n)) })
}

// fewest is the smallest number of checkpointed layers that fits, 0 where none are needed or all of them would not do. What is reserved lies above what is asked for, and falls about as that does:
// the first number that does not fit tells which should.
func (s *search) fewest(p point) int {
	depth, n := s.depth(p.Cut), s.atLeast(p)
	all := s.bound(p.Checkpointed(-1))
	low := side{n: n - 1, need: s.room + 1}
	for n < depth {
		m, ok := s.fits(p.Checkpointed(n))
		if ok {
			return s.downTo(p, low, side{n, m.safe})
		}
		low = side{n, max(m.safe, s.room+1)}
		least := low.need - (s.bound(p.Checkpointed(n)) - all)
		if n++; least < low.need && least <= s.room {
			n = max(n, s.between(p.Cut, low, side{depth, least}))
		} else if _, ok := s.fits(p.Checkpointed(-1)); !ok {
			return 0
		}
	}
	return 0
}

// downTo is the smallest number that fits between one that does not and one that does.
func (s *search) downTo(p point, low, high side) int {
	if high.n-low.n < 2 {
		return high.n
	}
	if m := s.need(p.Checkpointed(high.n - 1)); m.err != nil || m.safe > s.room { // it mostly is the one
		return high.n
	}
	return s.falling(p.Cut, low, side{high.n - 1, 0}, func(n int) units.Bytes {
		if m := s.need(p.Checkpointed(n)); m.err == nil {
			return m.safe
		}
		return s.room + 1
	})
}

// side is a number of checkpointed layers and what it needs.
type side struct {
	n    int
	need units.Bytes
}

// falling is the smallest number of layers that fits, above low, which does not, and up to high, which does. What they need falls nearly as what they keep
// grows: each guess is drawn between both sides.
func (s *search) falling(c setup.Cut, low, high side, need func(n int) units.Bytes) int {
	for try := 1; high.n-low.n > 1; try++ {
		guess := (low.n + high.n) / 2
		if low.need > high.need && try%3 != 0 { // every third by halves: the worst case stays logarithmic
			guess = s.between(c, low, high)
		}
		if b := need(guess); b <= s.room {
			high = side{guess, b}
		} else {
			low = side{guess, b}
		}
	}
	return high.n
}

// between is the number of layers that should just fit, by what both sides need.
func (s *search) between(c setup.Cut, low, high side) int {
	from, to := s.keptShare(c, max(low.n, 0)), s.keptShare(c, high.n)
	share := from + (to-from)*float64(low.need-s.room)/float64(low.need-high.need)
	guess := low.n + 1
	for guess < high.n-1 && s.keptShare(c, guess) < share {
		guess++
	}
	return guess
}
