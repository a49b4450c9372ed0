package plan

import (
	"cmp"
	"container/heap"
	"slices"
)

// axes give a point each value it may have on one axis, given those it has already. The order is that of the search's loops; an axis is added here.
func (s *search) axes() []func(point) []point {
	a := s.r.Axes
	return []func(point) []point{
		along(func(point) []layout { return s.r.layouts }, func(p *point, v layout) { p.layout = v }),
		along(func(p point) []int { return s.r.batches(p.layout) }, func(p *point, v int) { p.batch = v }),
		along(always(a.Precision), func(p *point, v string) { p.precision = v }),
		along(always(a.Checkpointing), func(p *point, v string) { p.checkpointing = v }),
		along(always(a.Attn), func(p *point, v string) { p.attn = v }),
		along(func(p point) []string { return s.r.kinds(p.layout) }, func(p *point, v string) { p.sharding = v }),
		along(always(a.Offload), func(p *point, v string) { p.offload = v }),
		along(always(a.Optimizer), func(p *point, v string) { p.optimizer = v }),
		along(always(a.Loop), func(p *point, v string) { p.loop = v }),
		along(always(a.Conf), func(p *point, v string) { p.conf = v }),
	}
}

// along is an axis with the values that a point may have on it.
func along[T any](values func(point) []T, set func(*point, T)) func(point) []point {
	return func(p point) []point {
		var out []point
		for _, v := range values(p) {
			set(&p, v)
			out = append(out, p)
		}
		return out
	}
}

func always[T any](values []T) func(point) []T { return func(point) []T { return values } }

// points lists every configuration there is.
func (s *search) points() []point {
	all := []point{{}}
	for _, axis := range s.axes() {
		var longer []point
		for _, p := range all {
			longer = append(longer, axis(p)...)
		}
		all = longer
	}
	return slices.DeleteFunc(all, idle)
}

// idle tells that a point moves what is not there: no state, or what a checkpointed layer computes again.
func idle(p point) bool {
	return p.onHost(OffloadOptimizer) && states[kind(p.optimizer)] == 0 || p.onHost(OffloadActivations) && p.checkpointing == Selective
}

// enumerate puts every group into the queue, its points in the order they are worth trying.
func (s *search) enumerate() {
	all := s.points()
	s.considered = len(all)
	s.sound(all)
	all = slices.DeleteFunc(all, func(p point) bool { return s.floor(s.key(p, 0)) > s.room })
	s.bounded = len(all) < s.considered
	s.listen(all)
	groups, order := map[group][]candidate{}, []group{}
	for _, p := range all {
		d, err := s.time(p, 1)
		if err != nil { // this size or precision has no code path
			s.failed = err
			continue
		}
		g := p.group()
		if groups[g] == nil {
			order = append(order, g)
		}
		groups[g] = append(groups[g], candidate{point: p, took: d, changes: s.changes(p)})
	}
	for _, g := range order {
		points := groups[g]
		slices.SortStableFunc(points, func(a, b candidate) int {
			return cmp.Or(cmp.Compare(a.took.total, b.took.total), cmp.Compare(a.changes, b.changes))
		})
		first := points[0]
		first.others = points[1:]
		s.queue = append(s.queue, first)
	}
	heap.Init(&s.queue)
}
