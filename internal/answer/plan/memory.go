package plan

import (
	"github.com/plimsoll/plimsoll/internal/answer/predict"
	"github.com/plimsoll/plimsoll/internal/answer/report"
	"github.com/plimsoll/plimsoll/internal/memory/alloc"
	"github.com/plimsoll/plimsoll/internal/model/job"
	"github.com/plimsoll/plimsoll/internal/model/shard"
	"github.com/plimsoll/plimsoll/internal/units"
)

// needs answers what a job needs of each card: a predict.Shelf.
type needs interface {
	Need(j job.Job, conf alloc.Conf, spread predict.Spread) (predict.Need, error)
	AtLeast(j job.Job, spread predict.Spread) (units.Bytes, error) // a lower bound of the safe bytes
	AtRest(j job.Job, spread predict.Spread) (units.Bytes, error)  // one that holds for any batch and checkpointing
}

// Notes are what searches about one job on one machine have found out: a further one with other limits or more cards need not find it again.
type Notes struct {
	needs    needs
	walked   map[walkKey]walked
	memories map[memoryKey]memory
	bounds   map[memoryKey]units.Bytes
	floors   map[memoryKey]units.Bytes
}

// NewNotes are empty.
func NewNotes(src predict.Source, m predict.Machine) *Notes {
	return &Notes{
		needs: predict.NewShelf(src, m), walked: map[walkKey]walked{}, memories: map[memoryKey]memory{}, bounds: map[memoryKey]units.Bytes{},
		floors: map[memoryKey]units.Bytes{},
	}
}

// memory is what a configuration needs.
type memory struct {
	peak report.PredictedPeak
	safe units.Bytes // reserved bytes that are not expected to be exceeded
	err  error
}

// memoryKey is what memory depends on: fp32 and TF32 need the same, and so do all numbers of micro-batches beyond one.
type memoryKey struct {
	batch, layers               int // layers: checkpointed ones; -1: all of them, 0: none
	params, cast                string
	optimizer, attn, loop, conf string
	accumulated                 bool
	sharding                    string
	ranks                       int
	layout                      layout
	away                        bool // activations are on the host
	adapters                    int  // rank of LoRA instead of full training
}

func unitsOf(n int64) units.Bytes { return units.Bytes(n) }

// key of a point with so many checkpointed layers.
func (s *search) key(p point, layers int) memoryKey {
	j := s.r.Job
	_ = j.SetPrecision(p.precision)
	k := memoryKey{
		batch: p.batch, layers: layers, params: j.ParamDType, cast: j.Autocast, optimizer: p.optimizer, attn: p.attn, loop: p.loop, conf: p.conf,
		accumulated: s.times(p) > 1, sharding: p.sharding, ranks: s.ranks(p.layout), layout: p.layout, away: p.onHost(OffloadActivations),
	}
	if p.onHost(OffloadOptimizer) {
		k.optimizer = "sgd" // no state on the card, no temporaries
	}
	return k
}

// need predicts a key once.
func (s *search) need(k memoryKey) memory {
	if m, ok := s.memories[k]; ok {
		return m
	}
	m := s.predict(k)
	s.memories[k] = m
	s.predictions++
	return m
}

// predict asks for a key; it may run in several goroutines.
func (s *search) predict(k memoryKey) memory {
	conf, err := s.conf(k.conf)
	if err != nil {
		return memory{err: err}
	}
	n, err := s.needs.Need(s.job(k), conf, k.spread())
	if err != nil {
		return memory{err: err}
	}
	peak := report.PredictedPeak{Allocated: n.Allocated, Reserved: n.Reserved, Device: n.Reserved + predict.Capacity(s.r.Machine) - predict.Room(s.r.Machine)}
	return memory{peak: peak, safe: n.Safe}
}

// bound is what a key needs at least, found without the allocator: what is asked for at once. It does not depend on the allocator's settings.
func (s *search) bound(k memoryKey) units.Bytes {
	k = boundKey(k)
	if b, ok := s.bounds[k]; ok {
		return b
	}
	b := s.atLeastNeeded(k)
	s.bounds[k] = b
	return b
}

func boundKey(k memoryKey) memoryKey {
	k.conf = ""
	return k
}

// job is the job with what a key varies.
func (s *search) job(k memoryKey) job.Job {
	j := s.r.Job
	j.Batch, j.Optimizer, j.Attn, j.Loop = k.batch, k.optimizer, k.attn, k.loop
	j.ParamDType, j.Autocast, j.TF32 = k.params, k.cast, false
	j.Checkpointing, j.Layers, j.Accumulate, j.OffloadActivations = k.layers != 0, max(k.layers, 0), 1, k.away
	j.Order = s.order
	if k.accumulated {
		j.Accumulate = 2
	}
	if k.adapters > 0 {
		j.LoRARank = k.adapters
	}
	return j
}

// spread is how a key's job is spread over cards.
func (k memoryKey) spread() predict.Spread {
	return predict.Spread{Plan: shard.Plan{Kind: k.sharding, Ranks: k.ranks, Stages: k.layout.stages}, Tensor: k.layout.tensor}
}

// conf reads allocator settings; without any they are the machine's.
func (s *search) conf(text string) (alloc.Conf, error) {
	if text == "" {
		return s.r.Machine.Conf, nil
	}
	return alloc.ParseConf(text, s.r.Machine.Torch)
}

// fits asks the bound first.
func (s *search) fits(p point, layers int) (memory, bool) {
	k := s.key(p, layers)
	if s.bound(k) > s.room {
		return memory{}, false
	}
	m := s.need(k)
	return m, m.err == nil && m.safe <= s.room
}

// floor is a lower bound that holds for any batch and checkpointing: what is there while the optimizer's step runs.
func (s *search) floor(k memoryKey) units.Bytes {
	k = s.floorKey(k)
	if b, ok := s.floors[k]; ok {
		return b
	}
	b := s.atRest(k)
	s.floors[k] = b
	return b
}

func (s *search) floorKey(k memoryKey) memoryKey {
	k.conf, k.batch, k.layers, k.accumulated, k.attn, k.loop, k.away = "", s.r.Axes.MicroBatch[0], 0, false, s.r.Job.Attn, s.r.Job.Loop, false
	return k
}

// onHost tells whether something is kept there.
func (p point) onHost(what string) bool { return p.offload == what || p.offload == OffloadBoth }

// onHost is the pinned memory that a candidate's process needs: what autograd saves of a micro-batch, a copy of parameters and gradients beside the
// optimizer's state (torchao/optim/cpu_offload.py, 0.14).
func (s *search) onHost(c candidate) units.Bytes {
	var sum units.Bytes
	if c.onHost(OffloadActivations) {
		sum += s.streamed(c.pass(c.checkpointing == Full)).facts.Pinned
	}
	if c.onHost(OffloadOptimizer) {
		t := s.streamed(c.pass(c.checkpointing == Full)).facts
		sum += units.Bytes(2+states[kind(c.optimizer)]) * t.Bytes / units.Bytes(s.ranks(c.layout))
	}
	return sum
}

// states counts the tensors like the parameters that an optimizer keeps.
var states = map[string]int{
	"sgdm": 1, "adam": 2, "adamw": 2, "amsgrad": 3, "nadam": 2, "radam": 2, "adamax": 2, "adagrad": 1, "adadelta": 2, "rmsprop": 1, "asgd": 1, "rprop": 2,
}
