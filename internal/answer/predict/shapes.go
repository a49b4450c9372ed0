package predict

import (
	"errors"
	"fmt"

	"github.com/plimsoll/plimsoll/internal/memory/course"
	"github.com/plimsoll/plimsoll/internal/memory/tape"
	"github.com/plimsoll/plimsoll/internal/model/deepen"
	"github.com/plimsoll/plimsoll/internal/model/eager"
	"github.com/plimsoll/plimsoll/internal/model/job"
	"github.com/plimsoll/plimsoll/internal/setup"
)

// Shape is what of a batch decides its memory.
type Shape struct {
	Batch  int
	Seq    int // tokens of its longest sample; 0: as the job says
	Target int // tokens of its longest target, for encoder-decoder models
	Padded bool
}

// Shapes makes the turns of one job with batches of any shape. Safe for concurrent use.
type Shapes struct {
	j   job.Job
	src Source
	m   Machine
	v   *Variants

	known patterns
}

// NewShapes knows nothing yet.
func NewShapes(j job.Job, src Source, m Machine) *Shapes {
	return &Shapes{j: j, src: src, m: m, v: NewVariants(src, m)}
}

// job is the job with batches of a shape.
func (s *Shapes) job(sh Shape) job.Job {
	j := s.j
	j.Batch, j.AttentionMask = sh.Batch, job.MaskFull
	if sh.Seq > 0 {
		j.Seq = sh.Seq
	}
	if j.Loop == setup.Plain {
		j.Loop = setup.Kept
	}
	if sh.Target > 0 {
		j.TargetSeq = sh.Target
	}
	if sh.Padded {
		j.AttentionMask = job.MaskPadded
	}
	return j
}

// Tape is three training steps of so many micro-batches of one shape, and where the steps begin.
func (s *Shapes) Tape(sh Shape, micro int) (*tape.Tape, []int, error) {
	j := s.job(sh)
	j.Accumulate = micro
	t, err := s.v.fresh(j)
	if err != nil {
		return nil, nil, fmt.Errorf("a batch of %d × %d: %w", sh.Batch, sh.Seq, err)
	}
	return t, course.Steps(t), nil
}

// Eval is the evaluation of a batch of a shape under torch.no_grad().
func (s *Shapes) Eval(sh Shape) (course.Turn, error) {
	j := s.job(sh)
	p := eager.NewProcess(s.m.device())
	var model eager.Model
	var err error
	if crash := p.Guard(func() { model, err = build(p, j, s.src) }); crash != nil {
		err = crash
	}
	if err == nil {
		err = p.Evaluate(model, options(j), 3)
	}
	if err != nil {
		return course.Turn{}, fmt.Errorf("evaluate a batch of %d × %d: %w", sh.Batch, sh.Seq, err)
	}
	steps := course.Steps(p.Tape())
	return course.Cut(p.Tape(), steps[2], steps[3], course.Evaluation)
}

// fresh is the tape of a job that may differ from others in anything but its parameters: only the optimizer's turns are kept.
func (s *Variants) fresh(j job.Job) (*tape.Tape, error) {
	if way := alikeLayers(s.src, j); way.zones != nil {
		r := s.record(j, s.src, way)
		if r.err == nil {
			t := s.turnsOf(j, setup.Cut{}, r.facts)
			if t.err != nil {
				return nil, t.err
			}
			return r.template.Write(way.zones, t.turns)
		}
		if !errors.Is(r.err, deepen.ErrIrregular) {
			return nil, r.err
		}
	}
	p, _, _, err := train(j, s.src, s.m, 3)
	if err != nil {
		return nil, err
	}
	return p.Tape(), nil
}
