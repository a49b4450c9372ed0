package predict

import (
	"cmp"
	"slices"
	"sync"

	"github.com/plimsoll/plimsoll/internal/memory/alloc"
	"github.com/plimsoll/plimsoll/internal/memory/tape"
	"github.com/plimsoll/plimsoll/internal/model/job"
	"github.com/plimsoll/plimsoll/internal/units"
)

// batches are two steps of one job at any batch. Running a model costs ten times as much as playing its tape, so few batches are run. Steps of different batches make the same requests, and
// nearly all of their sizes grow with the batch in proportion: the job's own tape suggests where the border lies, one batch there is run, and the tapes of others are drawn between the two.
// What is found on those is checked on the real ones.
type batches struct {
	j job.Job
	m Machine
	v *Variants

	runs  memo[int, ran]
	needs memo[int, needed]
	a, b  int // the batches that others are drawn between
}

type ran struct {
	tape *tape.Tape
	conv convolutions
	err  error
}

type needed struct {
	bytes units.Bytes
	ok    bool
}

// newBatches takes the job at its own batch (done, where it was predicted already) and runs it at the first batch that may be too large. There is no second one (0) where the steps are not
// alike, or one of them does not run.
func newBatches(j job.Job, src Source, m Machine, done *Result) *batches {
	s := &batches{j: j, m: m, a: min(j.Batch, maxBatch/2)}
	if done == nil || done.variants == nil {
		s.v = NewVariants(src, m)
	} else {
		s.v = done.variants
	}
	if done != nil && s.a == j.Batch {
		s.runs.get(s.a, func() ran { return ran{tape: twoSteps(done.Tape), conv: done.conv} })
	}
	own := s.run(s.a)
	if own.err != nil {
		return s
	}
	for _, n := range []int{s.suggested(own) + 1, 2 * s.a} {
		if other := s.run(n); n != s.a && other.err == nil && alikeTapes(own.tape, other.tape) {
			s.b = n
			break
		}
	}
	return s
}

// suggested is about the largest batch that fits, as the tape of one says it: activations and inputs grow with it, and what is reserved beyond what is asked for is the same share of it.
func (s *batches) suggested(own ran) int {
	safe, ok := s.needAt(s.a)
	tops := topsOf(own.tape)
	if !ok || len(tops) == 0 {
		return s.a
	}
	asked := func(n int) float64 {
		most := 0.0
		for _, t := range tops {
			most = max(most, float64(t.fixed)+float64(t.scaled)*float64(n)/float64(s.a))
		}
		return most
	}
	share := float64(safe) / max(asked(s.a), 1)
	scaled := func(n int) (units.Bytes, bool) { return units.Bytes(share * asked(n)), true }
	return min(largest(s.a, maxBatch, scaled, room(s.m)), maxBatch-1)
}

// top is what is asked for at a moment: what stays as it is at another batch, and what grows with it.
type top struct{ fixed, scaled units.Bytes }

// topsOf are the moments of a tape of which no other asks for more of both.
func topsOf(t *tape.Tape) []top {
	var now top
	var all []top
	rising := false
	for i := range t.Events {
		e := &t.Events[i]
		if e.Kind == tape.Mark {
			continue
		}
		part := &now.fixed
		if c := t.Owners[e.Owner].Category; c == tape.Activations || c == tape.Inputs {
			part = &now.scaled
		}
		switch e.Kind {
		case tape.Alloc:
			*part += e.Size
			rising = true
		case tape.Free:
			if rising {
				all, rising = append(all, now), false
			}
			*part -= e.Size
		}
	}
	all = append(all, now)
	slices.SortFunc(all, func(a, b top) int { return cmp.Or(cmp.Compare(b.fixed, a.fixed), cmp.Compare(b.scaled, a.scaled)) })
	out := all[:0]
	for _, t := range all {
		if len(out) == 0 || t.scaled > out[len(out)-1].scaled {
			out = append(out, t)
		}
	}
	return out
}

// twoSteps is a tape of three steps up to the third.
func twoSteps(t *tape.Tape) *tape.Tape {
	out := *t
	for i, e := range t.Events {
		if e.Kind == tape.Mark && t.Moments[e.Owner].Step > 2 {
			out.Events = t.Events[:i:i]
			break
		}
	}
	return &out
}

// resized is a step whose requests have other sizes.
func (r ran) resized(size func(i int, e tape.Event) units.Bytes) ran {
	t := *r.tape
	t.Events = slices.Clone(r.tape.Events)
	for i := range t.Events {
		if e := &t.Events[i]; e.Kind != tape.Mark {
			e.Size = size(i, *e)
		}
	}
	r.tape = &t
	return r
}

// both does two things at once.
func both(f, g func()) {
	var wait sync.WaitGroup
	wait.Go(f)
	g()
	wait.Wait()
}

func (s *batches) run(n int) ran {
	return s.runs.get(n, func() ran {
		j := s.j
		j.Batch = n
		return s.runOf(j)
	})
}

// runOf is two steps: the second is the first with optimizer state, and later ones are like it.
func (s *batches) runOf(j job.Job) ran {
	out, err := s.v.steps(j)
	if err != nil {
		return ran{err: err}
	}
	return ran{tape: twoSteps(out.tape), conv: out.conv}
}

// alikeTapes tells whether two tapes differ in sizes only.
func alikeTapes(a, b *tape.Tape) bool {
	if len(a.Events) != len(b.Events) {
		return false
	}
	for i := range a.Events {
		x, y := a.Events[i], b.Events[i]
		if x.Kind != y.Kind || x.ID != y.ID || x.Elastic != y.Elastic {
			return false
		}
	}
	return true
}

// drawn is the tape of a batch as the two that were run suggest it.
func (s *batches) drawn(n int) ran {
	a, b := s.run(s.a), s.run(s.b)
	along := func(x, y units.Bytes) units.Bytes {
		return max(x+(y-x)*units.Bytes(n-s.a)/units.Bytes(s.b-s.a), min(x, y, 1))
	}
	out := a.resized(func(i int, e tape.Event) units.Bytes {
		if other := b.tape.Events[i].Size; e.Size != other {
			return along(e.Size, other)
		}
		return e.Size
	})
	out.conv = convolutions{largest: along(a.conv.largest, b.conv.largest)}
	return out
}

// need is the safe bound of a step.
func (s *batches) need(r ran) (units.Bytes, bool) {
	if r.err != nil {
		return 0, false
	}
	res, err := alloc.Run(r.tape, alloc.Policy{Conf: s.m.Conf, Torch: s.m.Torch}, nil)
	if err != nil {
		return 0, false
	}
	return safeBound(res.Stats.Peak.Reserved, r.conv), true
}

func (s *batches) needAt(n int) (units.Bytes, bool) {
	found := s.needs.get(n, func() needed {
		bytes, ok := s.need(s.run(n))
		return needed{bytes, ok}
	})
	return found.bytes, found.ok
}

func (s *batches) fits(n int) bool {
	bytes, ok := s.needAt(n)
	return ok && bytes <= room(s.m)
}

// runsIn tells whether a step gets through in the memory there is.
func (s *batches) runsIn(r ran) bool {
	if r.err != nil {
		return false
	}
	limited, err := playWithin(r.tape, alloc.Policy{Conf: s.m.Conf, Torch: s.m.Torch, Cap: s.m.Cap, Device: max(room(s.m), 1)})
	return err == nil && limited.Failed == 0
}

// border finds the last batch for which something holds: on drawn tapes, where the real ones agree about it and the next, else on real ones from there.
func (s *batches) border(holds func(n int) bool, onDrawn, onReal func() int) int {
	if s.b == 0 {
		return onReal()
	}
	n := onDrawn()
	last, next := n == 0, n >= maxBatch
	both(func() { last = last || holds(n) }, func() { next = next || !holds(n+1) })
	if last && next {
		return n
	}
	return onReal()
}

// largest is the largest batch that fits.
func (s *batches) largest() int {
	search := func(need func(n int) (units.Bytes, bool)) int { return largest(s.j.Batch, maxBatch, need, room(s.m)) }
	onDrawn := func() int {
		need := func(n int) (units.Bytes, bool) { return s.need(s.drawn(n)) }
		if at, _ := need(s.b - 1); s.b > 1 && at <= room(s.m) && !s.fits(s.b) { // the suggestion was right
			return s.b - 1
		}
		return search(need)
	}
	return s.border(s.fits, onDrawn, func() int { return search(s.needAt) })
}

// tight is the largest batch that gets through after the allocator has released its cache, or with less workspace than cuDNN asks for; fits is one that needs
// neither. It is looked for upwards from there: close to the limit an allocator is not monotonic.
func (s *batches) tight(fits int) int {
	search := func(runs func(n int) bool) func() int { return func() int { return upwards(fits, runs) } }
	actual := func(n int) bool { return n <= fits || s.runsIn(s.run(n)) }
	return s.border(actual, search(func(n int) bool { return s.runsIn(s.drawn(n)) }), search(actual))
}
