package plan

import (
	"maps"

	"github.com/plimsoll/plimsoll/internal/answer/predict"
	"github.com/plimsoll/plimsoll/internal/answer/report"
	"github.com/plimsoll/plimsoll/internal/memory/alloc"
	"github.com/plimsoll/plimsoll/internal/model/job"
	"github.com/plimsoll/plimsoll/internal/model/shard"
	"github.com/plimsoll/plimsoll/internal/setup"
	"github.com/plimsoll/plimsoll/internal/torch"
	"github.com/plimsoll/plimsoll/internal/units"
)

// needs answers what a job needs of each card: predict.Variants.
type needs interface {
	Need(j job.Job, conf alloc.Conf, spread predict.Spread) (predict.Need, error)
	Within(j job.Job, conf alloc.Conf, room units.Bytes) (report.Limited, error) // of a job on one card
	AtLeast(j job.Job, spread predict.Spread) (units.Bytes, error)               // a lower bound of the safe bytes
	AtRest(j job.Job, spread predict.Spread) (units.Bytes, error)                // one that holds for any batch and checkpointing
}

// Notes are what searches about one job on one machine have found out: a further one with other limits or more cards need not find it again.
type Notes struct {
	needs    needs
	walked   map[walk]walked
	memories map[point]memory
	bounds   map[point]units.Bytes
	floors   map[point]units.Bytes
	squeezed map[squeeze]memory
}

// squeeze is a point in so much room.
type squeeze struct {
	point
	room units.Bytes
}

// NewNotes are empty.
func NewNotes(src predict.Source, m predict.Machine) *Notes {
	return &Notes{
		needs: predict.NewVariants(src, m), walked: map[walk]walked{}, memories: map[point]memory{}, bounds: map[point]units.Bytes{},
		floors: map[point]units.Bytes{}, squeezed: map[squeeze]memory{},
	}
}

// copied are notes of their own that begin with the same answers.
func (n *Notes) copied() *Notes {
	return &Notes{
		needs: n.needs, walked: maps.Clone(n.walked), memories: maps.Clone(n.memories), bounds: maps.Clone(n.bounds), floors: maps.Clone(n.floors), squeezed: maps.Clone(n.squeezed),
	}
}

// memory is what a configuration needs.
type memory struct {
	peak report.PredictedPeak
	safe units.Bytes // reserved bytes that are not expected to be exceeded
	// limited, where set, is how it gets through in less room than that: the allocator releases its cache and tries again.
	limited *report.Limited
	err     error
}

func unitsOf(n int64) units.Bytes { return units.Bytes(n) }

// memoryKey is what the memory of a point depends on: fp32 and TF32 need the same, and so do all numbers of micro-batches beyond one.
func (s *search) memoryKey(p point) point {
	p.Accumulate, p.Precision = min(s.times(p), 2), p.Precision.SameMemory()
	switch l, _ := p.Lower(); {
	case p.Offload.Has(setup.OffloadOptimizer): // no state on the card, no temporaries
		p.Optimizer = torch.Stateless
	case l.Engine == setup.DeepSpeed: // its own implementation
		p.Optimizer = l.Compute.Optimizer
	}
	return p
}

// need predicts a point once.
func (s *search) need(p point) memory {
	k := s.memoryKey(p)
	if m, ok := s.memories[k]; ok {
		return m
	}
	m := s.predict(k)
	s.memories[k] = m
	s.learn(k, m)
	s.predictions++
	return m
}

// learn raises the bound of a key to what was in use at its peak: other allocator settings do not change that.
func (s *search) learn(k point, m memory) {
	if b := s.boundKey(k); m.err == nil {
		s.bounds[b] = max(s.bound(b), m.peak.Allocated+s.margin(k, m.peak.Allocated))
	}
}

// predict asks for a key; it may run in several goroutines.
func (s *search) predict(k point) memory {
	conf, err := s.conf(k.Conf)
	if err != nil {
		return memory{err: err}
	}
	n, err := s.needs.Need(s.job(k), conf, spread(k))
	if err != nil {
		return memory{err: err}
	}
	peak := report.PredictedPeak{Allocated: n.Allocated, Reserved: n.Reserved, Device: n.Reserved + s.outside(k)}
	return memory{peak: peak, safe: n.Safe + s.margin(k, n.Safe)}
}

// outside is what lies on a card beside the allocator's memory: the context and, with several cards, NCCL's buffers.
func (s *search) outside(k point) units.Bytes {
	return predict.Context(s.r.Machine) + shard.NCCL(k.GPUs, s.r.Machine.Card.NVLink > 0)
}

// Margins for what was not measured, as a share of what is needed: less room than that is no room.
const (
	spreadMargin   = 0.03 // several cards, by shares of one card's tape. FSDP2 has a tape of its own, and was measured
	adaptersMargin = 0.02 // adapters, and a base in four bits
)

// margin is the room that has to be left beyond the safe bound, for what is computed from source code alone.
func (s *search) margin(k point, safe units.Bytes) units.Bytes {
	share := 0.0
	if own := k.Sharding == setup.FSDP2 || k.Sharding == setup.HSDP; k.GPUs > 1 && (!own || !k.Whole()) {
		share += spreadMargin
	}
	if k.LoRARank > 0 {
		share += adaptersMargin
	}
	return units.Bytes(share * float64(safe))
}

// bound is what a point needs at least, found without the allocator: what is asked for at once. It does not depend on the allocator's settings.
func (s *search) bound(p point) units.Bytes {
	k := s.boundKey(p)
	if b, ok := s.bounds[k]; ok {
		return b
	}
	if b := s.ofFewer(k); b > s.room {
		return b
	}
	return s.ownBound(k)
}

// ownBound is the bound of a key by its own recording, kept.
func (s *search) ownBound(k point) units.Bytes {
	b, ok := s.bounds[k]
	if !ok {
		b = s.atLeastNeeded(k)
		s.bounds[k] = b
	}
	return b
}

// ofFewer is the bound of fewer samples in as many micro-batches where that is too much already; 0 where it is not. The fewest and those in the middle are asked: one recording then rules out all
// larger ones.
func (s *search) ofFewer(k point) units.Bytes {
	if k.Checkpointing == setup.Selective {
		return 0
	}
	var fewer []point
	for _, n := range s.r.batches(k) {
		f := k
		if f.MicroBatch = n; n < k.MicroBatch && min(s.times(f), 2) == k.Accumulate {
			fewer = append(fewer, f)
		}
	}
	if len(fewer) == 0 {
		return 0
	}
	for _, f := range []point{fewer[0], fewer[len(fewer)/2]} {
		if b := s.ownBound(f); b > s.room {
			return b
		}
	}
	return 0
}

func (s *search) boundKey(p point) point {
	k := s.memoryKey(p)
	k.Conf = ""
	return k
}

// job is the job with what a key varies.
func (s *search) job(k point) job.Job {
	l, _ := k.Lower() // points has tried it
	j := s.r.Job.With(l.Compute)
	j.Order = s.order
	return j
}

// spread is how a key's job is spread over cards.
func spread(k point) predict.Spread {
	l, _ := k.Lower()
	return predict.Spread{Plan: shard.Plan{Kind: k.Sharding, Ranks: k.Ranks(), Stages: k.Stages, Masters: l.Masters, Element: l.Compute.Precision.Params().Bytes(), Code: k.Code}, Tensor: k.Tensor}
}

// conf reads allocator settings; without any they are the machine's.
func (s *search) conf(text string) (alloc.Conf, error) {
	if text == "" {
		return s.r.Machine.Conf, nil
	}
	return alloc.ParseConf(text, s.r.Machine.Torch)
}

// fits asks the bound first.
func (s *search) fits(p point) (memory, bool) {
	if s.bound(p) > s.room {
		return memory{}, false
	}
	m := s.need(p)
	return m, m.err == nil && m.safe <= s.room
}

// squeeze plays a point whose safe bound does not fit in the room there is, less what its prediction may be off: a plan that gets through in that has room
// enough for its own uncertainty, but waits for the card whenever the allocator releases its cache. What several cards hold is not played.
func (s *search) squeeze(p point, m memory) memory {
	k := s.memoryKey(p)
	room := s.room - (m.safe - m.peak.Reserved)
	if s := spread(k); s.Plan.Ranks > 1 || s.Plan.Stages > 1 || s.Tensor > 1 || m.peak.Allocated > 2*room {
		return m
	}
	key := squeeze{k, room}
	if known, ok := s.squeezed[key]; ok {
		return known
	}
	conf, err := s.conf(k.Conf)
	if err == nil {
		var played report.Limited
		if played, err = s.needs.Within(s.job(k), conf, room); err == nil && played.Failed == 0 {
			m.limited = &played
		}
	}
	s.squeezed[key] = m
	return m
}

// floor is a lower bound that holds for any batch and checkpointing: what is there while the optimizer's step runs.
func (s *search) floor(p point) units.Bytes {
	k := s.floorKey(p)
	if b, ok := s.floors[k]; ok {
		return b
	}
	b := s.atRest(k)
	s.floors[k] = b
	return b
}

func (s *search) floorKey(p point) point {
	k := s.memoryKey(p).Checkpointed(0)
	k.Conf, k.MicroBatch, k.Accumulate, k.Attn, k.Loop, k.Offload = "", s.r.Axes.MicroBatch[0], 1, s.r.Job.Attn, s.r.Job.Loop, setup.OffloadNone
	return k
}

// onHost is the pinned memory that a point's process needs: what autograd saves of a micro-batch, a copy of parameters and gradients beside the
// optimizer's state (torchao/optim/cpu_offload.py, 0.14).
func (s *search) onHost(p point) units.Bytes {
	var sum units.Bytes
	if p.Offload.Has(setup.OffloadActivations) {
		sum += s.streamed(pass(p)).facts.Pinned
	}
	if p.Offload.Has(setup.OffloadOptimizer) {
		sum += units.Bytes(2+p.Optimizer.WholeStates()) * s.streamed(pass(p)).facts.Bytes / units.Bytes(p.Ranks())
	}
	return sum
}
