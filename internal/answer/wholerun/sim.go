// Package wholerun predicts a training run from its first step to its last.
//
// It takes a job, how long its samples are, how they become batches, evaluations in between, and the memory there is and returns a report.Run: whether the run
// completes, and where not, at which step and on which batch, over several orders of the samples; how allocated and reserved memory go on over the run; and
// what would make it safe, each checked by the same simulation. Each shape of a batch is computed once (package predict) and played as often as it
// occurs (package course). Tapes are made on as many goroutines as there are processors; everything else is sequential and repeats exactly.
package wholerun

import (
	"fmt"
	"runtime"
	"slices"
	"sync"

	"github.com/plimsoll/plimsoll/internal/answer/predict"
	"github.com/plimsoll/plimsoll/internal/memory/alloc"
	"github.com/plimsoll/plimsoll/internal/memory/course"
	"github.com/plimsoll/plimsoll/internal/memory/tape"
	"github.com/plimsoll/plimsoll/internal/model/job"
	"github.com/plimsoll/plimsoll/internal/model/lengths"
	"github.com/plimsoll/plimsoll/internal/units"
)

// Schedule is what a run does, batch by batch.
type Schedule struct {
	Train      []lengths.Batch
	Eval       []lengths.Batch // the batches of every evaluation
	EvalAfter  []int           // training batches after which one happens, in order
	EmptyEvery int             // torch.cuda.empty_cache() after so many training batches; 0: never
}

// Level is what one batch came to.
type Level struct {
	Batch     lengths.Batch
	Eval      bool
	Step      int // training batches so far, this one included
	Allocated units.Bytes
	Reserved  units.Bytes // after it
	Held      units.Bytes // reserved at most in it
	Retries   int
}

// Trace is a run that was played.
type Trace struct {
	Levels                    []Level
	MaxAllocated, MaxReserved units.Bytes
	Retries                   int
	Declined                  int
	Failed                    *Failure
}

// reserved is what is reserved after each training batch.
func (t *Trace) reserved() []units.Bytes {
	var out []units.Bytes
	for _, l := range t.Levels {
		if !l.Eval {
			out = append(out, l.Reserved)
		}
	}
	return out
}

// meanAndP99 are the mean and the 99th percentile, which lies between two values where its place does, as numpy.percentile computes it.
func meanAndP99(all []units.Bytes) (mean, p99 units.Bytes) {
	if len(all) == 0 {
		return 0, 0
	}
	slices.Sort(all)
	sum := 0.0
	for _, b := range all {
		sum += float64(b)
	}
	at := 0.99 * float64(len(all)-1)
	low := int(at)
	high := min(low+1, len(all)-1)
	return units.Bytes(sum / float64(len(all))), all[low] + units.Bytes((at-float64(low))*float64(all[high]-all[low]))
}

// Failure is the batch a run died on.
type Failure struct {
	Step  int // that was not finished, from 1; of an evaluation: the last one that was
	Eval  bool
	Batch lengths.Batch
	Asked units.Bytes // of CUDA
	event int
}

// part is which micro-batch of an optimizer's step a batch is.
type part uint8

const (
	whole  part = iota // the only one
	first              // of several
	middle             // neither the first nor the last
	last               // the optimizer's step follows
	eval               // none: evaluation
)

type turnKey struct {
	shape predict.Shape
	part  part
}

// Sim plays runs of one job.
type Sim struct {
	j      job.Job
	shapes *predict.Shapes
	mu     sync.Mutex
	turns  map[turnKey]*course.Turn
	starts map[predict.Shape]start
}

// start is the load of a model and a first step.
type start struct {
	tape *tape.Tape
	to   int
}

// NewSim knows no shapes yet.
func NewSim(j job.Job, src predict.Source, m predict.Machine) *Sim {
	return &Sim{j: j, shapes: predict.NewShapes(j, src, m), turns: map[turnKey]*course.Turn{}, starts: map[predict.Shape]start{}}
}

func (s *Sim) shape(b lengths.Batch) predict.Shape {
	return predict.Shape{Batch: b.Samples, Seq: b.Longest, Target: s.j.TargetSeq, Padded: b.Padded}
}

// part is the place of a training batch, counted from 0, in its optimizer's step.
func (s *Sim) part(i int) part {
	k := max(s.j.Accumulate, 1)
	switch {
	case k == 1:
		return whole
	case i%k == 0:
		return first
	case i%k == k-1:
		return last
	}
	return middle
}

// prepare makes the turns of schedules that are not known yet.
func (s *Sim) prepare(all ...*Schedule) error {
	var missing []turnKey
	seen := map[turnKey]bool{}
	want := func(k turnKey) {
		if s.turns[k] == nil && !seen[k] {
			seen[k] = true
			missing = append(missing, k)
		}
	}
	for _, r := range all {
		if len(r.Train) == 0 {
			return fmt.Errorf("a run without batches")
		}
		for i, b := range r.Train[1:] {
			want(turnKey{s.shape(b), s.part(i + 1)})
		}
		if len(r.EvalAfter) > 0 {
			for _, b := range r.Eval {
				want(turnKey{s.shape(b), eval})
			}
		}
		if err := s.begin(s.shape(r.Train[0])); err != nil {
			return err
		}
	}
	return s.make(missing)
}

// begin makes the start of a run whose first batch has a shape.
func (s *Sim) begin(sh predict.Shape) error {
	if _, ok := s.starts[sh]; ok {
		return nil
	}
	t, steps, err := s.shapes.Tape(sh, 1)
	if err != nil {
		return err
	}
	s.starts[sh] = start{t, steps[1]}
	return nil
}

// make computes turns side by side.
func (s *Sim) make(missing []turnKey) error {
	var group sync.WaitGroup
	work := make(chan turnKey)
	var failed error
	for range min(runtime.GOMAXPROCS(0), len(missing)) {
		group.Go(func() {
			for k := range work {
				t, err := s.turn(k)
				s.mu.Lock()
				if err != nil && failed == nil {
					failed = err
				}
				if err == nil {
					s.turns[k] = &t
				}
				s.mu.Unlock()
			}
		})
	}
	for _, k := range missing {
		work <- k
	}
	close(work)
	group.Wait()
	return failed
}

func (s *Sim) turn(k turnKey) (course.Turn, error) {
	if k.part == eval {
		return s.shapes.Eval(k.shape)
	}
	return s.shapes.Turn(k.shape, k.part.stretch())
}

// stretch is where a batch lies on a tape: in the third step, or a micro-batch of it.
func (p part) stretch() predict.Stretch {
	if p == whole {
		return predict.Stretch{Micro: 1, Pick: func(_ *tape.Tape, steps []int) (from, to int, err error) { return steps[2], steps[3], nil }}
	}
	const micro = 3 // a first one, one between, and the last
	return predict.Stretch{Micro: micro, Name: int(p), Pick: func(t *tape.Tape, steps []int) (from, to int, err error) {
		forwards := course.Forwards(t, steps[2], steps[3])
		if len(forwards) != micro {
			return 0, 0, fmt.Errorf("a step of %d micro-batches has %d forward passes", micro, len(forwards))
		}
		borders := []int{steps[2], forwards[1], forwards[2], steps[3]}
		at := int(p - first)
		return borders[at], borders[at+1], nil
	}}
}

// Play runs a schedule under a policy.
func (s *Sim) Play(r *Schedule, p alloc.Policy) (*Trace, error) {
	if err := s.prepare(r); err != nil {
		return nil, err
	}
	return s.played(r, p), nil
}

// played runs a schedule that was prepared.
func (s *Sim) played(r *Schedule, p alloc.Policy) *Trace {
	begun := s.starts[s.shape(r.Train[0])]
	c, played := course.Start(p, begun.tape, begun.to)
	run := playing{s: s, c: c, bound: map[turnKey]*course.Bound{}, trace: &Trace{Levels: make([]Level, 0, len(r.Train))}}
	if run.note(r.Train[0], 1, false, played) {
		run.all(r)
	}
	return run.trace
}

// playing is a run that is being played.
type playing struct {
	s     *Sim
	c     *course.Course
	bound map[turnKey]*course.Bound
	trace *Trace
}

func (p *playing) all(r *Schedule) {
	for i, b := range r.Train {
		if i > 0 && !p.play(turnKey{p.s.shape(b), p.s.part(i)}, b, i+1) {
			return
		}
		if r.EmptyEvery > 0 && (i+1)%r.EmptyEvery == 0 {
			p.c.EmptyCache()
		}
		if _, due := slices.BinarySearch(r.EvalAfter, i+1); due && !p.evaluate(r, i+1) {
			return
		}
	}
}

// evaluate is a function with a loop: the names of its last batch die when it returns.
func (p *playing) evaluate(r *Schedule, step int) bool {
	for _, b := range r.Eval {
		if !p.play(turnKey{p.s.shape(b), eval}, b, step) {
			return false
		}
	}
	p.c.Forget(course.Evaluation)
	return true
}

func (p *playing) play(k turnKey, b lengths.Batch, step int) bool {
	turn := p.bound[k]
	if turn == nil {
		turn = p.c.Bind(p.s.turns[k])
		p.bound[k] = turn
	}
	return p.note(b, step, k.part == eval, p.c.Play(turn))
}

func (p *playing) note(b lengths.Batch, step int, eval bool, l course.Played) bool {
	t := p.trace
	t.MaxAllocated, t.MaxReserved = max(t.MaxAllocated, l.Allocated), max(t.MaxReserved, l.Held)
	t.Retries += l.Retries
	t.Declined += l.Declined
	t.Levels = append(t.Levels, Level{Batch: b, Eval: eval, Step: step, Allocated: l.Allocated, Reserved: l.Reserved, Held: l.Held, Retries: l.Retries})
	if l.Failed {
		t.Failed = &Failure{Step: step, Eval: eval, Batch: b, Asked: l.Failure.Segment, event: l.Event}
	}
	return !l.Failed
}
