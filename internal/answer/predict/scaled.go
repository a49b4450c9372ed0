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
	own   int      // the job's own batch, or half of the largest
	near  int      // about the largest batch that fits
	draws *drawing // of other batches, between the job's own and one that may be too large; nil where there is none
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

// newBatches takes the job at its own batch (done, where it was predicted already).
func newBatches(j job.Job, src Source, m Machine, done *Result) *batches {
	s := &batches{j: j, m: m, near: j.Batch}
	if done == nil || done.variants == nil {
		s.v = NewVariants(src, m)
	} else {
		s.v = done.variants
	}
	s.own = min(j.Batch, maxBatch/2)
	if done != nil && s.own == j.Batch {
		s.runs.get(s.own, func() ran { return ran{tape: twoSteps(done.Tape), conv: done.conv} })
	}
	return s
}

// hopeless tells that parameters, gradients and the optimizer's state do not fit by themselves: no batch fits then, and no sequence.
func (s *batches) hopeless() bool {
	r := s.run(s.own)
	if r.err != nil {
		return false
	}
	var now, most units.Bytes
	for i := range r.tape.Events {
		e := &r.tape.Events[i]
		if e.Kind == tape.Mark {
			continue
		}
		switch r.tape.Owners[e.Owner].Category {
		case tape.Parameters, tape.Gradients, tape.Optimizer:
			now += e.Change()
			most = max(most, now)
		}
	}
	return most > room(s.m)
}

// draw runs the job at the first batch that may be too large. Nothing is drawn where the steps are not alike, or one of them does not run.
func (s *batches) draw() {
	a := s.run(s.own)
	if a.err != nil {
		return
	}
	s.near = s.suggested(s.own)
	with := []int{s.near + 1, 2 * s.own}
	if a.conv.any { // far from these two, cuDNN takes other plans
		with = with[:1]
	}
	for _, n := range with {
		if s.draws = newDrawing(a, s.run(n), s.own, n); s.draws != nil {
			return
		}
	}
}

// suggested is about the largest batch that fits, as the tape of one says it: activations and inputs grow with it, and what is reserved beyond what is asked for is the same share of it.
func (s *batches) suggested(own int) int {
	safe, ok := s.needAt(own)
	tops := topsOf(s.run(own).tape, false)
	if !ok {
		return own
	}
	return min(largest(own, maxBatch, scaledNeed(tops, own, float64(safe)/max(highest(tops, 1), 1)), room(s.m)), maxBatch-1)
}

// bare is about the largest batch that runs without what libraries take for a moment, as the tape of one says it.
func (s *batches) bare(own int) int {
	r := s.run(own)
	if r.err != nil {
		return own
	}
	return largest(own, maxBatch, scaledNeed(topsOf(r.tape, true), own, 1), room(s.m))
}

// scaledNeed is what other batches need as far as moments of one say it.
func scaledNeed(tops []top, own int, share float64) func(n int) (units.Bytes, bool) {
	return func(n int) (units.Bytes, bool) {
		return units.Bytes(share * highest(tops, float64(n)/float64(own))), true
	}
}

// top is what is asked for at a moment: what stays as it is at another batch, and what grows with it.
type top struct{ fixed, scaled units.Bytes }

// highest is the most that is asked for at once where what grows is so many times larger.
func highest(tops []top, times float64) float64 {
	most := 0.0
	for _, t := range tops {
		most = max(most, float64(t.fixed)+float64(t.scaled)*times)
	}
	return most
}

// topsOf are the moments of a tape of which no other asks for more of both. bare leaves out what libraries take for a moment.
func topsOf(t *tape.Tape, bare bool) []top {
	var now top
	var all []top
	rising := false
	for i := 0; i < len(t.Events); i++ {
		e := &t.Events[i]
		if n := passing(t, i); bare && n > 0 {
			i += n - 1
			continue
		}
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
	out, err := s.v.steps(j, 2)
	if err != nil {
		return ran{err: err}
	}
	return ran{tape: twoSteps(out.tape), conv: out.conv}
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
	return boundOf(s.j, s.m.Conf, res.Stats.Peak.Reserved, r.conv), true
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

// border is the last batch for which something holds, as drawn tapes say it; where the real ones do not agree about it and the next, it is looked for around them.
func border(drawn int, holds func(n int) bool) int {
	last, next := drawn == 0, drawn >= maxBatch
	both(func() { last = last || holds(drawn) }, func() { next = next || !holds(drawn+1) })
	if last && next {
		return drawn
	}
	return around(drawn, holds)
}

// largest is the largest batch that fits.
func (s *batches) largest() int {
	if s.draws == nil {
		return largest(s.near+1, maxBatch, s.needAt, room(s.m)) // which was run already
	}
	need := func(n int) (units.Bytes, bool) { return s.need(s.draws.at(n)) }
	guess := s.draws.b - 1
	if at, _ := need(guess); guess < 1 || at > room(s.m) || s.fits(guess+1) { // the suggestion was wrong
		guess = largest(s.j.Batch, maxBatch, need, room(s.m))
	}
	return border(guess, s.fits)
}

// tight is the largest batch that gets through after the allocator has released its cache, or with less workspace than cuDNN asks for; fits is one that needs
// neither. It is looked for upwards from there: close to the limit an allocator is not monotonic.
func (s *batches) tight(fits int) int {
	runs := func(n int) bool { return n <= fits || s.runsIn(s.run(n)) }
	if s.draws == nil {
		return s.tightReal(fits, runs)
	}
	return border(upwards(fits, func(n int) bool { return s.runsIn(s.draws.at(n)) }), runs)
}

// tightReal looks for it on real tapes alone. What is held beside workspaces, which a kernel can do without, tells which batches cannot run, and which far from there do; the one that is found was run.
func (s *batches) tightReal(fits int, runs func(n int) bool) int {
	most := s.bare(max(fits, 1))
	n := upwards(fits, func(n int) bool { return n <= most && (n < most/10*9 || runs(n)) })
	if n < maxBatch && runs(n) {
		return n
	}
	return upwards(fits, runs)
}
