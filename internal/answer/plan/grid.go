package plan

import (
	"cmp"
	"container/heap"
	"slices"

	"github.com/plimsoll/plimsoll/internal/setup"
	"github.com/plimsoll/plimsoll/internal/torch"
)

// axes give a point each value it may have on one axis, given those it has already. The order is that of the search's loops; an axis is added here.
func (s *search) axes() []func(point) []point {
	a := s.r.Axes
	return []func(point) []point{
		along(func(point) []setup.Cut { return s.r.cuts }, func(p *point, v setup.Cut) { p.Cut = v }),
		along(func(p point) []int { return s.r.contexts(p.Cut) }, func(p *point, v int) { p.Context = v }),
		along(s.r.batches, func(p *point, v int) { p.MicroBatch = v }),
		along(always(a.Precision), func(p *point, v torch.Precision) { p.Precision = v }),
		along(always(a.Checkpointing), func(p *point, v setup.Checkpointing) { p.Checkpointing = v }),
		along(always(a.Attn), func(p *point, v setup.Attention) { p.Attn = v }),
		along(func(p point) []setup.Sharding { return s.r.kinds(p.Cut) }, func(p *point, v setup.Sharding) { p.Sharding = v }),
		along(always(a.Offload), func(p *point, v setup.Offload) { p.Offload = v }),
		along(always(a.Optimizer), func(p *point, v torch.Optimizer) { p.Optimizer = v }),
		along(always(a.Loop), func(p *point, v setup.Loop) { p.Loop = v }),
		along(always(a.Conf), func(p *point, v string) { p.Conf = v }),
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
	all := []point{{GPUs: s.r.GPUs, Code: s.r.Job.Code, Adapters: s.r.Job.Adapters()}}
	for _, axis := range s.axes() {
		var longer []point
		for _, p := range all {
			longer = append(longer, axis(p)...)
		}
		all = longer
	}
	return slices.DeleteFunc(all, func(p point) bool {
		_, err := p.Lower()
		if err == nil && s.r.Can != nil {
			err = s.r.Can(p)
		}
		if err != nil && s.failed == nil {
			s.failed = err
		}
		return err != nil || idle(p)
	})
}

// idle tells that a point moves what is not there: no state, or what a checkpointed layer computes again.
func idle(p point) bool {
	return p.Offload.Has(setup.OffloadOptimizer) && p.Optimizer.WholeStates() == 0 || p.Offload.Has(setup.OffloadActivations) && p.Checkpointing == setup.Selective
}

// enumerate puts every group into the queue, its points in the order they are worth trying.
func (s *search) enumerate() {
	all := s.points()
	s.considered = len(all)
	s.sound(all)
	all = slices.DeleteFunc(all, func(p point) bool { return s.floor(p) > s.room })
	s.bounded = len(all) < s.considered
	s.listen(all)
	groups, order := map[point][]candidate{}, []point{}
	for _, p := range all {
		if p.Checkpointing == setup.Selective {
			p.Layers = 1 // at least
		}
		d, err := s.time(p)
		if err != nil { // this size or precision has no code path
			s.failed = err
			continue
		}
		g := groupOf(p)
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
