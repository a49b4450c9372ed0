package predict

import (
	"fmt"

	"github.com/plimsoll/plimsoll/internal/answer/report"
	"github.com/plimsoll/plimsoll/internal/model/job"
	"github.com/plimsoll/plimsoll/internal/model/shard"
	"github.com/plimsoll/plimsoll/internal/setup"
	"github.com/plimsoll/plimsoll/internal/units"
)

// Spread is how a job is distributed over cards: Ranks see different data, Tensor and Stages cut the model.
type Spread struct {
	Plan   shard.Plan
	Tensor int // 0 and 1: none

	micro int // micro-batches of a step, which the part's tape has one of
}

// RunSpread predicts a job on one card and adds what each card needs when the job is spread. That part is analytic.
func RunSpread(j job.Job, src Source, m Machine, s Spread) (*Result, error) {
	whole, err := Run(j, src, m)
	if err != nil {
		return nil, err
	}
	lowered, err := s.lower(&j)
	if err != nil {
		return nil, err
	}
	part := whole
	if s.Tensor > 1 || s.Plan.Stages > 1 {
		if src, err = Divide(src, s.Tensor, s.Plan.Stages); err != nil {
			return nil, err
		}
	}
	if lowered || s.Tensor > 1 || s.Plan.Stages > 1 {
		if part, err = Run(j, src, m); err != nil {
			return nil, err
		}
	}
	if whole.Report.Sharded, err = s.rank(part, m); err != nil {
		return nil, err
	}
	sharded(&whole.Report)
	return whole, nil
}

// sharded lets each card's share decide: what the allocator does in the room there is is not played for it.
func sharded(r *report.Prediction) {
	r.Fits, r.Limited, r.Verdict = r.Sharded.Fits, nil, report.DoesNotFit
	if r.Fits {
		r.Verdict = report.Fits
	}
}

// lower makes the job what the engine of a spread runs; it tells whether that is another one.
func (s *Spread) lower(j *job.Job) (bool, error) {
	as := j.Setup()
	as.Sharding, as.Cut = s.Plan.Kind, s.cut()
	as.GPUs = s.Plan.Ranks * as.Cards()
	if s.Plan.Ranks < 2 {
		as.Sharding = setup.Unsharded
	}
	l, err := as.Lower()
	if err != nil {
		return false, err
	}
	s.Plan.Masters, s.Plan.Code = l.Masters, l.Compute.Code
	s.Plan.Element = l.Compute.Precision.Params().Bytes()
	if _, ok := s.Plan.Fully(0); ok {
		s.micro, l.Compute.Accumulate = l.Compute.Accumulate, 1
	}
	order := j.Order
	*j = j.With(l.Compute)
	j.Order = order
	return l.Compute != as, nil
}

// RunPart predicts one rank alone: src is what Divide left of the model.
func RunPart(j job.Job, src Source, m Machine, s Spread) (*Result, error) {
	if _, ok := s.Plan.Fully(0); ok {
		s.micro, j.Accumulate = j.Accumulate, 1
	}
	part, err := Run(j, src, m)
	if err != nil {
		return nil, err
	}
	part.Report.Sharded, err = s.rank(part, m)
	if err != nil {
		return nil, err
	}
	sharded(&part.Report)
	return part, nil
}

// Divide cuts a model for tensor and pipeline parallelism.
func Divide(src Source, tensor, stages int) (Source, error) {
	if src.Config == nil {
		return src, fmt.Errorf("tensor and pipeline parallelism need a config.json; a graph cannot be split")
	}
	divided, err := src.Config.Divide(max(tensor, 1), max(stages, 1))
	return Source{Config: divided}, err
}

// rank is what one card needs, from the prediction of its part.
func (s Spread) rank(part *Result, m Machine) (*report.Sharded, error) {
	out := &report.Sharded{Kind: s.Plan.Kind, Ranks: s.Plan.Ranks, Tensor: max(s.Tensor, 1), Stages: max(s.Plan.Stages, 1)}
	cards := s.Plan.Ranks * max(s.Tensor, 1) * max(s.Plan.Stages, 1)
	fully, ok := s.Plan.Fully(s.micro)
	var cached units.Bytes
	switch {
	case ok:
		p, err := play(fully.Rank(part.Tape), m)
		if err != nil {
			return nil, err
		}
		out.Allocated, out.Reserved, out.Assumptions = p.peak, p.reserved, s.Plan.Assumptions()
		out.Safe = boundOf(part.job, m.Conf, max(p.reserved, p.upward), part.conv)
	case s.Plan.Ranks > 1:
		e, err := shard.PerRank(part.Tape, s.Plan)
		if err != nil {
			return nil, err
		}
		out.Allocated, out.Buffers, out.Assumptions, cached = e.Peak, e.Buffers, e.Assumptions, e.Cached
	default:
		more, why := shard.InFlight(part.Tape, s.Plan.Stages)
		out.Allocated, out.Assumptions = part.Report.Peak.Allocated+more, why
	}
	if s.Tensor > 1 {
		out.Assumptions = append(out.Assumptions, fmt.Sprintf("tensor parallel %d: heads and MLP are split; embeddings, norms and logits are not", s.Tensor))
	}
	if !ok { // What the allocator holds beyond what is in use is taken to be as much as on one card.
		out.Safe = out.Allocated + cached + part.Report.Safe - part.Report.Peak.Allocated
		out.Reserved = out.Safe
	}
	out.Fits = out.Safe+m.context()+shard.NCCL(cards, m.Card.NVLink > 0) <= m.capacity()
	return out, nil
}
