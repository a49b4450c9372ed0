package plan

import (
	"maps"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/plimsoll/plimsoll/internal/answer/predict"
	"github.com/plimsoll/plimsoll/internal/setup"
	"github.com/plimsoll/plimsoll/internal/units"
)

// What is known to be asked for soon is computed beforehand, on all processors. Goroutines only compute answers, which share nothing that changes, and end
// before the search goes on; which answers are computed does not depend on the number of processors.

// each runs work for every number below n.
func each(n int, work func(i int)) {
	var next atomic.Int64
	var wait sync.WaitGroup
	for range min(n, runtime.GOMAXPROCS(0)) {
		wait.Go(func() {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				work(i)
			}
		})
	}
	wait.Wait()
}

// fetch computes the answers to some questions that are not known yet.
func fetch[K comparable, V any](questions []K, known map[K]V, compute func(K) V) {
	var open []K
	asked := map[K]bool{}
	for _, k := range questions {
		if _, ok := known[k]; !ok && !asked[k] {
			asked[k] = true
			open = append(open, k)
		}
	}
	answers := make([]V, len(open))
	each(len(open), func(i int) { answers[i] = compute(open[i]) })
	for i, k := range open {
		known[k] = answers[i]
	}
}

// sound finds the floors of points.
func (s *search) sound(all []point) {
	var keys []point
	for _, p := range all {
		keys = append(keys, s.floorKey(p))
	}
	fetch(keys, s.floors, s.atRest)
}

// listen runs the streams of points.
func (s *search) listen(all []point) {
	var keys []walk
	sources := map[setup.Cut]predict.Source{}
	for _, p := range all {
		for _, layers := range []int{0, -1} {
			if layers != 0 && p.Checkpointing == setup.None || layers == 0 && p.Checkpointing == setup.Full {
				continue
			}
			walks, _ := s.walks(passWith(p, layers))
			keys = append(keys, walks...)
		}
	}
	for _, k := range keys {
		sources[k.Cut] = s.part(k.Cut)
	}
	fetch(keys, s.walked, func(k walk) walked { return s.follow(k, sources[k.Cut]) })
}

// ahead computes what a candidate and the next one in the queue will ask for: bounds, then the memory of the first point of each that may fit.
func (s *search) ahead(c candidate) {
	next := []candidate{c}
	for _, q := range s.queue[:min(3, len(s.queue))] {
		if q.Checkpointing != setup.Selective && s.open(q) {
			next = append(next, q)
		}
	}
	var keys []point
	for _, c := range next {
		for _, v := range c.points() {
			if k := s.boundKey(v.point); s.ofFewer(k) <= s.room {
				keys = append(keys, k)
			}
		}
	}
	fetch(keys, s.bounds, s.atLeastNeeded)
	var open []point
	for _, c := range next[:min(2, len(next))] {
		for _, v := range c.points() {
			k := s.memoryKey(v.point)
			m, known := s.memories[k]
			if known && m.err == nil && m.safe <= s.room {
				break
			}
			if !known && s.bound(v.point) <= s.room {
				open = append(open, k)
				break
			}
		}
	}
	was := len(s.memories)
	fetch(open, s.memories, s.predict)
	for _, k := range open {
		s.learn(k, s.memories[k])
	}
	s.predictions += len(s.memories) - was
}

// open tells that a candidate will be asked about when its turn comes, as far as is known.
func (s *search) open(c candidate) bool { return !c.solved && !s.needless(c) && !s.waits(c) }

// beside begins to solve the next candidate of the queue, in a copy of the search whose answers are forgotten: when that one's turn comes, needs knows what it asks for. It returns what waits for
// the end of it.
func (s *search) beside() (wait func()) {
	if !s.foresees || len(s.queue) == 0 || !s.open(s.queue[0]) || runtime.GOMAXPROCS(0) < 2 {
		return func() {}
	}
	next, other := s.queue[0], *s
	other.queue, other.waiting, other.refused, other.parts, other.passes = nil, nil, nil, maps.Clone(s.parts), maps.Clone(s.passes)
	other.Notes = s.copied()
	var end sync.WaitGroup
	end.Go(func() { other.solve(next) })
	return end.Wait
}

// atLeastNeeded and atRest ask for a key; what cannot be computed is bounded by nothing, and need says why.
func (s *search) atLeastNeeded(k point) units.Bytes {
	b, err := s.needs.AtLeast(s.job(k), spread(k))
	if err != nil {
		return 0
	}
	return b + s.margin(k, b)
}

func (s *search) atRest(k point) units.Bytes {
	b, err := s.needs.AtRest(s.job(k), spread(k))
	if err != nil {
		return 0
	}
	return b + s.margin(k, b)
}
