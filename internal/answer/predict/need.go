package predict

import (
	"cmp"
	"fmt"
	"sync"

	"github.com/plimsoll/plimsoll/internal/answer/report"
	"github.com/plimsoll/plimsoll/internal/memory/alloc"
	"github.com/plimsoll/plimsoll/internal/memory/tape"
	"github.com/plimsoll/plimsoll/internal/model/deepen"
	"github.com/plimsoll/plimsoll/internal/model/job"
	"github.com/plimsoll/plimsoll/internal/model/shard"
	"github.com/plimsoll/plimsoll/internal/setup"
	"github.com/plimsoll/plimsoll/internal/units"
)

// Need is what a job needs of each card.
type Need struct {
	Allocated units.Bytes // at the peak
	Reserved  units.Bytes // of a job on one card; several cards': the safe bound
	Safe      units.Bytes // reserved bytes that are not expected to be exceeded
}

// playedOut is a tape's way through the allocator.
type playedOut struct {
	allocated, reserved, safe units.Bytes
	err                       error
}

// alone tells that a job is on one card.
func (s Spread) alone() bool { return s.Plan.Ranks < 2 && s.cut() == setup.Cut{} }

// cut is what the spread leaves of the model.
func (s Spread) cut() setup.Cut { return setup.NewCut(s.Tensor, s.Plan.Stages) }

// Need predicts a job, spread over cards or not, under allocator settings: the numbers of Run and RunPart. The job must have passed Check.
func (s *Variants) Need(j job.Job, conf alloc.Conf, spread Spread) (Need, error) {
	c := spread.cut()
	if f, ok := spread.Plan.Fully(j.Accumulate); ok {
		return s.fully(j, c, conf, f, spread.Plan)
	}
	p := s.plays.get(playOf(j, c, conf), func() playedOut { return s.play(j, c, conf) })
	if p.err != nil || spread.alone() {
		return Need{Allocated: p.allocated, Reserved: p.reserved, Safe: p.safe}, p.err
	}
	held, err := s.rank(j, spread, p.allocated)
	if err != nil {
		return Need{}, err
	}
	// What the allocator holds beyond what is in use is taken to be as much as on one card, and what the plan makes it keep.
	safe := held + p.safe - p.allocated + spread.Plan.Cached(s.modelOf(j, c).model)
	return Need{Allocated: held, Reserved: safe, Safe: safe}, nil
}

// fully plays the tape of a rank under fully_shard.
func (s *Variants) fully(j job.Job, c setup.Cut, conf alloc.Conf, f shard.Fully, plan shard.Plan) (Need, error) {
	j.Accumulate = 1
	k := playOf(j, c, conf)
	k.plan, k.micro = plan, f.Micro
	p := s.plays.get(k, func() playedOut { return s.playTape(j, s.rankTape(j, c, k, f), conf) })
	return Need{Allocated: p.allocated, Reserved: p.reserved, Safe: p.safe}, p.err
}

// Within plays a job on one card in so much room.
func (s *Variants) Within(j job.Job, conf alloc.Conf, room units.Bytes) (report.Limited, error) {
	t, _, err := s.tapeOf(j, setup.Cut{})
	if err != nil {
		return report.Limited{}, err
	}
	return playWithin(t, alloc.Policy{Conf: conf, Torch: s.m.Torch, Device: max(room, 1)})
}

// playWithin says how a tape gets through in a limit.
func playWithin(t *tape.Tape, p alloc.Policy) (report.Limited, error) {
	res, err := alloc.Run(t, p, nil)
	if err != nil {
		return report.Limited{}, fmt.Errorf("run the allocator: %w", err)
	}
	out := report.Limited{Room: p.Device, Reserved: res.Stats.Peak.Reserved, Retries: res.Stats.Retries, Declined: res.Stats.Declined}
	if res.Outcome() == alloc.Fails {
		out.Failed = res.Failure.Segment
	}
	return out, nil
}

// AtLeast is a lower bound of Need's Safe under any allocator settings, found without the allocator: what is asked for at once, and the safe bound's margin.
func (s *Variants) AtLeast(j job.Job, spread Spread) (units.Bytes, error) {
	c := spread.cut()
	asked, facts, err := s.asked(j, c, deepen.Instant.Total)
	if err != nil {
		return 0, err
	}
	bound := safeBound(asked, facts.conv)
	if spread.alone() {
		return bound, nil
	}
	held, err := s.rank(j, spread, asked)
	return held + bound - asked, err
}

// AtRest is a lower bound of AtLeast for any batch and checkpointing, found without a run of either: parameters, gradients and what the optimizer has in its step.
func (s *Variants) AtRest(j job.Job, spread Spread) (units.Bytes, error) {
	c := spread.cut()
	m := s.modelOf(j, c)
	if m.err != nil {
		return 0, m.err
	}
	t := s.turnsOf(j, c, m.facts)
	if t.err != nil {
		return 0, t.err
	}
	still := deepen.Outline{Later: []deepen.Instant{m.rest}, Settled: [2][tape.Categories]units.Bytes{m.rest.Held, m.rest.Held}}
	asked := still.Highest(t.sketch, deepen.Instant.Total)
	bound := safeBound(asked, convolutions{})
	if spread.Plan.Ranks < 2 {
		return bound, nil
	}
	none := m.model.WithSaved(0, tape.Beside{})
	held := still.Highest(t.sketch, func(i deepen.Instant) units.Bytes { return spread.Plan.Moment(none, i.Held, i.Backward) })
	return held + bound - asked, nil
}

// rank is what one of several cards holds at most, of a job that allocates so much alone.
func (s *Variants) rank(j job.Job, spread Spread, allocated units.Bytes) (units.Bytes, error) {
	c := spread.cut()
	o := s.outlineOf(j, c)
	if o.err != nil {
		return 0, o.err
	}
	shared := s.modelOf(j, c)
	if shared.err != nil {
		return 0, shared.err
	}
	first, made := o.outline.Beside, s.turnsOf(j, c, o.facts).sketch.Made
	first.Least += made[tape.Inputs] + made[tape.Workspace] + made[tape.Activations] + made[tape.Other] // what the optimizer has made beside its state
	m := shared.model.WithSaved(o.outline.Saved, first)
	if spread.Plan.Ranks < 2 {
		return allocated + m.InFlight(spread.Plan.Stages), nil
	}
	if err := spread.Plan.Check(); err != nil {
		return 0, err
	}
	held, _, err := s.asked(j, c, func(i deepen.Instant) units.Bytes { return spread.Plan.Moment(m, i.Held, i.Backward) })
	return held, err
}

// playOf is what a tape's way through the allocator depends on.
func playOf(j job.Job, c setup.Cut, conf alloc.Conf) playing {
	p := playing{key: passesOf(j, c), conf: conf}
	p.Optimizer = j.Optimizer
	return p
}

// taped is a tape and what was learned beside it.
type taped struct {
	tape  *tape.Tape
	facts facts
	err   error
}

// rankTape is the tape of a rank under fully_shard. It does not depend on allocator settings, so the latest ones are kept for others.
func (s *Variants) rankTape(j job.Job, c setup.Cut, k playing, f shard.Fully) taped {
	k.conf = alloc.Conf{}
	return s.ranks.get(k, func() taped {
		t, r, err := s.tapeOf(j, c)
		if err != nil {
			return taped{err: err}
		}
		return taped{f.Rank(t), r.facts, nil}
	})
}

// play runs the tape of a job through the allocator, as Run does.
func (s *Variants) play(j job.Job, c setup.Cut, conf alloc.Conf) playedOut {
	t, r, err := s.tapeOf(j, c)
	return s.playTape(j, taped{t, r.facts, err}, conf)
}

// playTape lets the allocator have the addresses that the driver gives in falling and in rising order, and the model built on the host, at the same time. Expandable segments grow in one
// address range: nothing depends on the order.
func (s *Variants) playTape(j job.Job, t taped, conf alloc.Conf) playedOut {
	if t.err != nil {
		return playedOut{err: t.err}
	}
	policy := alloc.Policy{Conf: conf, Torch: s.m.Torch}
	var up, host alloc.Result
	var failed, lost error
	var wait sync.WaitGroup
	if !conf.Expandable {
		wait.Go(func() {
			rising := policy
			rising.Addresses = alloc.Increasing()
			up, failed = alloc.Run(t.tape, rising, nil)
		})
	}
	if moved, ok := t.tape.Moved(); ok {
		wait.Go(func() { host, lost = alloc.Run(moved, policy, nil) })
	}
	down, err := alloc.Run(t.tape, policy, nil)
	wait.Wait()
	if err = cmp.Or(err, failed, lost); err != nil {
		return playedOut{err: fmt.Errorf("run the allocator: %w", err)}
	}
	most := max(down.Stats.Peak.Reserved, up.Stats.Peak.Reserved, host.Stats.Peak.Reserved)
	return playedOut{allocated: down.Stats.Peak.Allocated, reserved: down.Stats.Peak.Reserved, safe: boundOf(j, conf, most, t.facts.conv)}
}
