package plan

import (
	"container/heap"
	"sort"
)

// solveSelective takes what costs no time for granted: the group's point that needs least memory checkpoints fewest layers.
func (s *search) solveSelective(c candidate) {
	for _, v := range c.others {
		if v.optimizer == c.optimizer {
			c.point, c.changes = v.point, v.changes
		}
	}
	c.others = nil
	if c.layers == 0 { // a number it cannot do with fewer than gives a better place in the queue
		if c.layers = s.atLeast(c.point); c.layers >= s.depth(c.layout) {
			return
		}
	} else {
		if c.layers = s.fewest(c.point); c.layers <= 0 {
			return
		}
		c.need, c.solved = s.need(s.key(c.point, c.layers)), true
	}
	var err error
	if c.took, err = s.time(c.point, c.layers); err == nil {
		heap.Push(&s.queue, c)
	}
}

// atLeast is the smallest number of checkpointed layers whose bound fits; all of them where none does. What is asked for falls with every layer that is
// checkpointed.
func (s *search) atLeast(p point) int {
	depth := s.depth(p.layout)
	if s.bound(s.key(p, -1)) > s.room {
		return depth
	}
	return 1 + sort.Search(depth-1, func(n int) bool { return s.bound(s.key(p, n+1)) <= s.room })
}

// fewest is the smallest number of checkpointed layers that fits, 0 where only all of them would do. What is reserved lies a little above the bound.
func (s *search) fewest(p point) int {
	for n := s.atLeast(p); n < s.depth(p.layout); n++ {
		if _, ok := s.fits(p, n); ok {
			return n
		}
	}
	return 0
}
