package wholerun

import (
	"fmt"
	"runtime"
	"strings"
	"sync"

	"github.com/plimsoll/plimsoll/internal/answer/predict"
	"github.com/plimsoll/plimsoll/internal/answer/report"
	"github.com/plimsoll/plimsoll/internal/memory/alloc"
	"github.com/plimsoll/plimsoll/internal/memory/tape"
	"github.com/plimsoll/plimsoll/internal/model/job"
	"github.com/plimsoll/plimsoll/internal/model/lengths"
	"github.com/plimsoll/plimsoll/internal/units"
)

// Question is a run and the memory there is for it.
type Question struct {
	Job     job.Job
	Source  predict.Source
	Machine predict.Machine

	Lengths    Lengths
	Batching   lengths.Batching
	Batches    []lengths.Batch // the run's own, where they are known; Lengths and Batching are then not asked
	Steps      int             // training batches; 0: Epochs decides
	Epochs     int             // 0 is 1
	Eval       []lengths.Batch
	EvalEvery  int   // training batches between evaluations; 0: after the last
	EvalAfter  []int // training batches after which one happens, where they are known: EvalEvery is then not asked
	EmptyEvery int
	Orders     int // of the samples to try; 0 is 1
}

// Lengths are those of a data set, or a distribution to draw from.
type Lengths struct {
	Known  []int
	Drawn  *lengths.Distribution
	Source string // for a screen
	Cap    int    // samples are cut here; 0: nowhere
}

// of gives the lengths for one order of the samples.
func (l Lengths) of(n int, seed uint64) []int {
	if l.Drawn != nil {
		return lengths.Cap(l.Drawn.Draw(n, seed), l.Cap)
	}
	return lengths.Cap(l.Known, l.Cap)
}

// longestRun bounds the batches of a run.
const longestRun = 1_000_000

// schedule is what the run does in one order of its samples.
func (q *Question) schedule(order int) (*Schedule, []int, error) {
	b := q.Batching
	b.Seed += uint64(order)
	r := &Schedule{Train: q.Batches, Eval: q.Eval, EmptyEvery: q.EmptyEvery}
	var all []int
	if q.Batches == nil {
		all = q.Lengths.of(max(q.Steps, 1)*max(b.Batch, 1), b.Seed)
		for epoch := 0; ; epoch++ {
			if q.Steps == 0 && epoch >= max(q.Epochs, 1) || q.Steps > 0 && len(r.Train) >= q.Steps {
				break
			}
			made := b.Epoch(all, epoch)
			if len(made) == 0 {
				return nil, nil, fmt.Errorf("%d samples are too few for one batch", len(all))
			}
			r.Train = append(r.Train, made...)
		}
		if q.Steps > 0 {
			r.Train = r.Train[:q.Steps]
		}
	}
	if len(r.Train) > longestRun {
		return nil, nil, fmt.Errorf("%d batches are more than is simulated (%d): give --steps", len(r.Train), longestRun)
	}
	switch {
	case len(q.Eval) > 0 && q.EvalAfter != nil:
		r.EvalAfter = q.EvalAfter
	case len(q.Eval) > 0:
		for i := max(q.EvalEvery, 1); q.EvalEvery > 0 && i <= len(r.Train); i += q.EvalEvery {
			r.EvalAfter = append(r.EvalAfter, i)
		}
		if q.EvalEvery == 0 {
			r.EvalAfter = []int{len(r.Train)}
		}
	}
	return r, all, nil
}

// policy is the allocator under the limit there is.
func (q *Question) policy() alloc.Policy {
	return alloc.Policy{Conf: q.Machine.Conf, Torch: q.Machine.Torch, Device: q.room(), Cap: q.Machine.Cap}
}

// room is what may be reserved under it.
func (q *Question) room() units.Bytes {
	return max(predict.Room(q.Machine), 1)
}

// Answer simulates a run.
func Answer(q Question) (*report.Run, report.Verdict, error) {
	return NewSim(q.Job, q.Source, q.Machine).Answer(q)
}

// Answer simulates a run of the sim's job.
func (s *Sim) Answer(q Question) (*report.Run, report.Verdict, error) {
	if q.Batches == nil {
		if err := q.Batching.Check(); err != nil {
			return nil, "", err
		}
	}
	orders := max(q.Orders, 1)
	if q.Batches != nil || q.Lengths.Drawn == nil && !q.Batching.Sampler.Shuffles() {
		orders = 1
	}
	r := &report.Run{Orders: orders, Lengths: q.Lengths.Source, Sampler: string(q.Batching.Sampler)}
	var shown *Trace // the first order that fails, else the first
	var free *Trace
	var after []units.Bytes // reserved, by training batch of all orders
	err := s.orders(&q, orders, func(order int, o *outcome) {
		r.MaxAllocated, r.MaxReserved = max(r.MaxAllocated, o.unlimited.MaxAllocated), max(r.MaxReserved, o.unlimited.MaxReserved)
		after = append(after, o.unlimited.reserved()...)
		if order == 0 {
			r.Steps, r.Samples, r.Evaluated = len(o.schedule.Train), o.samples, len(o.schedule.EvalAfter)
			r.Longest = longest(o.schedule.Train)
		}
		if o.within.Failed != nil {
			r.Failing++
			s.fails(r, o.within.Failed)
		}
		if shown == nil || o.within.Failed != nil && shown.Failed == nil {
			shown, free = o.within, o.unlimited
		}
	})
	if err != nil {
		return nil, "", err
	}
	r.Shapes = len(s.turns)
	r.MeanReserved, r.P99Reserved = meanAndP99(after)
	r.Chance = float64(r.Failing) / float64(orders)
	r.Limited = report.Limited{Room: q.room(), Reserved: shown.MaxReserved, Retries: shown.Retries, Declined: shown.Declined}
	if shown.Failed != nil {
		r.Limited.Failed = shown.Failed.Asked
	}
	r.Curve = curve(shown.Levels)
	if free != shown {
		r.Free = curve(free.Levels)
	}
	return r, verdict(r, shown), nil
}

// outcome is one order of the samples, played.
type outcome struct {
	schedule          *Schedule
	samples           int
	unlimited, within *Trace
}

// orders plays so many orders of the samples, as many at a time as there are processors, and hands over what they came to, one after the other.
func (s *Sim) orders(q *Question, n int, each func(int, *outcome)) error {
	together := min(n, runtime.GOMAXPROCS(0))
	for start := 0; start < n; start += together {
		all := make([]outcome, min(together, n-start))
		schedules := make([]*Schedule, len(all))
		for i := range all {
			schedule, samples, err := q.schedule(start + i)
			if err != nil {
				return err
			}
			all[i].schedule, all[i].samples, schedules[i] = schedule, len(samples), schedule
		}
		if err := s.prepare(schedules...); err != nil {
			return err
		}
		var group sync.WaitGroup
		for i := range all {
			group.Go(func() { s.both(q, &all[i]) })
		}
		group.Wait()
		for i := range all {
			each(start+i, &all[i])
		}
	}
	return nil
}

// both plays a schedule that was prepared on a card without limit and within the limit there is, which is the same where the limit is never reached.
func (s *Sim) both(q *Question, o *outcome) {
	o.unlimited = s.played(o.schedule, alloc.Policy{Conf: q.Machine.Conf, Torch: q.Machine.Torch})
	o.within = o.unlimited
	if o.unlimited.MaxReserved > q.room() {
		o.within = s.played(o.schedule, q.policy())
	}
}

func verdict(r *report.Run, shown *Trace) report.Verdict {
	switch {
	case r.Failing > 0:
		return report.DoesNotFit
	case shown.Retries > 0 || r.MaxReserved > r.Limited.Room:
		return report.Tight
	}
	return report.Fits
}

func longest(all []lengths.Batch) int {
	n := 0
	for _, b := range all {
		n = max(n, b.Longest)
	}
	return n
}

// fails notes where an order fails: the first one in full, of others how late.
func (s *Sim) fails(r *report.Run, f *Failure) {
	if r.FailsAt != nil {
		r.FailsAt.Last = max(r.FailsAt.Last, f.Step)
		return
	}
	r.FailsAt = &report.FailsAt{Step: f.Step, Eval: f.Eval, Shape: []int{f.Batch.Samples, f.Batch.Longest}, Sample: f.Batch.At, Asked: f.Asked, Last: f.Step}
	r.FailsAt.Phase, r.FailsAt.Where = s.where(f)
}

// where says what asked for the memory that was not there.
func (s *Sim) where(f *Failure) (phase, who string) {
	if f.Eval {
		return "eval", ""
	}
	at := s.part(f.Step - 1).stretch()
	t, steps, err := s.shapes.Tape(s.shape(f.Batch), at.Micro)
	if err != nil {
		return "", ""
	}
	from, to, err := at.Pick(t, steps)
	if f.Step == 1 {
		from = 0
	}
	if err != nil {
		return "", ""
	}
	count := 0
	for i := from; i < to; i++ {
		e := &t.Events[i]
		if e.Kind == tape.Mark {
			phase = t.Moments[e.Owner].Phase
			continue
		}
		if count == f.event {
			o := t.Owners[e.Owner]
			return phase, strings.TrimSpace(o.Module + " " + o.Op)
		}
		count++
	}
	return phase, ""
}

// Least is the smallest number of reserved bytes that a run completes in, and in a few percent more, to a thousandth of it. An allocator is not monotonic:
// close to the limit a run may complete in less and fail in more, since each release of the cache changes where later blocks lie.
func (s *Sim) Least(q Question) (units.Bytes, error) {
	schedule, _, err := q.schedule(0)
	if err != nil {
		return 0, err
	}
	return s.least(schedule, alloc.Policy{Conf: q.Machine.Conf, Torch: q.Machine.Torch})
}

func (s *Sim) least(schedule *Schedule, policy alloc.Policy) (units.Bytes, error) {
	free, err := s.Play(schedule, policy)
	if err != nil {
		return 0, err
	}
	completes := func(limit units.Bytes) bool {
		policy.Cap = limit
		t, _ := s.Play(schedule, policy) // the schedule has been played
		return t.Failed == nil
	}
	low, high := free.MaxAllocated*97/100, free.MaxReserved // workspaces of cuDNN are not needed
	for {
		for high-low > high/1000 {
			if middle := (low + high) / 2; completes(middle) {
				high = middle
			} else {
				low = middle
			}
		}
		above := high
		for percent := units.Bytes(5); percent > 0; percent-- {
			if limit := above + above*percent/100; limit < free.MaxReserved && !completes(limit) {
				low, high = limit, min(limit+above/100, free.MaxReserved)
				break
			}
		}
		if high == above {
			return high, nil
		}
		for high < free.MaxReserved && !completes(high) {
			low, high = high, min(high+above/100, free.MaxReserved)
		}
	}
}

// points is how many moments a curve has at most.
const points = 600

// curve shortens the levels of a run: of each stretch the highest allocated, what is reserved after it, and all retries.
func curve(all []Level) []report.RunMoment {
	stretch := (len(all) + points - 1) / points
	var out []report.RunMoment
	for i, l := range all {
		m := report.RunMoment{Step: l.Step, Eval: l.Eval, Longest: l.Batch.Longest, Allocated: l.Allocated, Reserved: l.Reserved, Retries: l.Retries}
		if i%stretch == 0 {
			out = append(out, m)
			continue
		}
		at := &out[len(out)-1]
		m.Retries += at.Retries
		if m.Allocated < at.Allocated {
			m.Step, m.Eval, m.Longest, m.Allocated = at.Step, at.Eval, at.Longest, at.Allocated
		}
		*at = m
	}
	return out
}
