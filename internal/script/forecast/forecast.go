// Package forecast chooses, before a training script runs, the mildest change that makes it fit.
//
// It takes the captured job with its graph, the card and what is free on it and returns the attempt.Plan to start with and the predicted bytes with and
// without it. Every candidate is predicted by package predict. A job that fits is left untouched; one that nothing makes fit gets
// the plan that needs least, and is said not to fit. Refused: jobs that cannot be predicted, with predict's reason.
package forecast

import (
	"fmt"
	"slices"

	"github.com/plimsoll/plimsoll/internal/answer/predict"
	"github.com/plimsoll/plimsoll/internal/memory/alloc"
	"github.com/plimsoll/plimsoll/internal/model/job"
	"github.com/plimsoll/plimsoll/internal/model/shard"
	"github.com/plimsoll/plimsoll/internal/script/attempt"
	"github.com/plimsoll/plimsoll/internal/torch"
	"github.com/plimsoll/plimsoll/internal/units"
)

// Question is a job and the room there is for it.
type Question struct {
	Job     job.Job // as captured; checked
	Source  predict.Source
	Machine predict.Machine // its Capacity is what the card has free now, the process's own context included
	Cap     units.Bytes     // what the script lets PyTorch reserve (set_per_process_memory_fraction); 0: all there is
	Ranks   int             // processes that train together under DDP; 0 and 1: one
	Uncut   bool            // no DataLoader feeds it: its batch cannot be split
}

// Answer is the plan to start with.
type Answer struct {
	Plan    attempt.Plan
	Fits    bool        // false: nothing that may be changed makes it fit
	Before  units.Bytes // device bytes predicted untouched
	After   units.Bytes // and under the plan
	Room    units.Bytes // what there is of them
	Changed bool        // whether the plan changes anything
	// Estimated says that After is no prediction of the plan but the least it needs.
	Estimated bool
	Own       Own // what the script could set itself, where it does not fit as it is
}

// Own is a batch in smaller parts, as a script's own options would have it: the same effective batch. Its Batch is 0 where no such part fits.
type Own struct {
	Batch, Accumulate int
	Bytes             units.Bytes // predicted device bytes
}

// Choose predicts the job untouched and, where it does not fit, each change from the mildest on: allocator settings, the optimizer's form,
// micro-batches, checkpointing, both, all of them, and precision where numerics may change. The allocator has to get through in the room there
// is, giving back what it caches as it does: were that wrong, the failure would start the run again.
func Choose(q Question, limits attempt.Limits) (Answer, error) {
	s := search{q: q, needs: map[attempt.Plan]need{}}
	none := attempt.Plan{Split: 1}
	before := s.need(none)
	if before.err != nil {
		return Answer{}, before.err
	}
	a := Answer{Plan: none, Fits: true, Before: before.expected, After: before.expected, Room: s.room(before)}
	if before.survives {
		return a, nil
	}
	least := none
	for _, ladder := range s.ladders(limits) {
		found, ok := s.mildest(ladder)
		if n := s.need(found); n.err == nil && n.safe < s.need(least).safe {
			least = found
		}
		if ok {
			least = found
			break
		}
	}
	a.Own = s.own()
	n := s.need(least)
	a.Plan, a.After, a.Fits, a.Changed = least, n.expected, s.gets(n), least != none
	if !a.Fits && q.Uncut && !limits.NoChunk && a.Own.Batch > 0 {
		// The parts need what micro-batches of their size do. What the model returns for the whole batch comes on top, and is not predicted.
		a.Plan, a.After, a.Changed, a.Estimated = attempt.Plan{Split: 1, Chunk: q.Job.Batch / a.Own.Batch}, a.Own.Bytes, true, true
	}
	return a, nil
}

type search struct {
	q     Question
	needs map[attempt.Plan]need
}

// need is what a plan takes of the device.
type need struct {
	expected, safe units.Bytes
	context        units.Bytes
	survives       bool // the allocator gets through in the room there is
	err            error
}

// room is what the process may take of the device: what is free, and no more than its own cap beside its context.
func (s *search) room(n need) units.Bytes {
	if s.q.Cap > 0 {
		return min(s.q.Machine.Capacity, s.q.Cap+n.context)
	}
	return s.q.Machine.Capacity
}

// ladders are lists of plans, the mildest list first; within a list every plan needs less than the one before.
func (s *search) ladders(limits attempt.Limits) [][]attempt.Plan {
	one := attempt.Plan{Split: 1}
	expandable, loop, both := one, one, one
	expandable.Expandable, both.Expandable = true, true
	loop.LoopOptimizer, both.LoopOptimizer = true, true
	ladders := [][]attempt.Plan{{expandable}, {loop}, {both}}
	add := func(base attempt.Plan) {
		if !limits.NoSplit && !s.q.Uncut {
			ladders = append(ladders, s.splits(base))
		}
	}
	add(one)
	for _, autocast := range []string{"", "bf16"} {
		base := one
		if autocast != "" {
			if !limits.Numerics || s.q.Job.Autocast != "" || s.q.Job.ParamDType != "fp32" {
				continue
			}
			base.Autocast = autocast
			ladders = append(ladders, []attempt.Plan{base})
			add(base)
		}
		if !limits.NoCheckpoint && len(s.blocks()) > 0 {
			base.Checkpoint = true
			ladders = append(ladders, []attempt.Plan{base})
			add(base)
		}
		base.Expandable, base.LoopOptimizer = true, true
		ladders = append(ladders, []attempt.Plan{base})
		add(base)
	}
	return ladders
}

// splits are the plan's ways to cut the batch into equal parts.
func (s *search) splits(base attempt.Plan) []attempt.Plan {
	var plans []attempt.Plan
	for n := 2; n <= s.q.Job.Batch; n++ {
		if s.q.Job.Batch%n == 0 {
			base.Split = n
			plans = append(plans, base)
		}
	}
	return plans
}

// own is the largest part of the batch that fits without any other change.
func (s *search) own() Own {
	p, ok := s.mildest(s.splits(attempt.Plan{Split: 1}))
	if !ok {
		return Own{}
	}
	return Own{Batch: s.q.Job.Batch / p.Split, Accumulate: max(s.q.Job.Accumulate, 1) * p.Split, Bytes: s.need(p).expected}
}

// mildest is the first plan of a ladder that fits; where none does, the last, which needs least.
func (s *search) mildest(ladder []attempt.Plan) (attempt.Plan, bool) {
	fits := func(p attempt.Plan) bool { return s.gets(s.need(p)) }
	if len(ladder) == 0 {
		return attempt.Plan{Split: 1}, false
	}
	last := ladder[len(ladder)-1]
	if !fits(last) {
		return last, false
	}
	lo, _ := slices.BinarySearchFunc(ladder, true, func(p attempt.Plan, _ bool) int {
		if fits(p) {
			return 1
		}
		return -1
	})
	return ladder[lo], true
}

// gets tells whether a plan gets through: its safe bound fits, or the allocator manages in the room there is.
func (s *search) gets(n need) bool { return n.err == nil && (n.safe <= s.room(n) || n.survives) }

func (s *search) need(p attempt.Plan) need {
	n, ok := s.needs[p]
	if !ok {
		n = s.predict(p)
		s.needs[p] = n
	}
	return n
}

func (s *search) predict(p attempt.Plan) need {
	j, m, err := s.under(p)
	if err != nil {
		return need{err: err}
	}
	if err := j.Check(); err != nil {
		return need{err: err}
	}
	if s.q.Ranks > 1 {
		res, err := predict.RunSpread(j, s.q.Source, m, predict.Spread{Plan: shard.Plan{Kind: "ddp", Ranks: s.q.Ranks}})
		if err != nil {
			return need{err: err}
		}
		r := res.Report
		context := r.ByCategory["context"]
		n := need{expected: r.Sharded.Safe + context, safe: r.Sharded.Safe + context, context: context}
		n.survives = n.safe <= s.room(n)
		return n
	}
	res, err := predict.Run(j, s.q.Source, m)
	if err != nil {
		return need{err: err}
	}
	r := res.Report
	context := r.ByCategory["context"]
	return need{expected: r.Peak.Device, safe: r.Safe + context, context: context, survives: r.Verdict.Runs()}
}

// under is the job as the plan would have it run.
func (s *search) under(p attempt.Plan) (job.Job, predict.Machine, error) {
	j, m := s.q.Job, s.q.Machine
	m.Cap = s.q.Cap
	if p.Split > 1 {
		j.Batch = (j.Batch + p.Split - 1) / p.Split
		j.Accumulate = max(j.Accumulate, 1) * p.Split
	}
	if p.Checkpoint {
		j.Checkpointing, j.CheckpointModules = true, s.blocks()
	}
	if p.LoopOptimizer {
		if o, ok := j.Optimizer.With(torch.Loop); ok {
			j.Optimizer = o
		}
	}
	if p.Autocast != "" {
		j.Autocast = torch.DType(p.Autocast)
	}
	if p.Expandable {
		conf, err := alloc.ParseConf("expandable_segments:True", m.Torch)
		if err != nil {
			return j, m, fmt.Errorf("expandable segments: %w", err)
		}
		m.Conf = conf
	}
	return j, m, nil
}

// blocks are the modules that checkpointing would wrap, where the script does not checkpoint itself.
func (s *search) blocks() []string {
	if s.q.Job.Checkpointing || s.q.Source.Graph == nil {
		return nil
	}
	return Blocks(s.q.Source.Graph)
}
