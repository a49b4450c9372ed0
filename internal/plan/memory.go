package plan

import (
	"github.com/plimsoll/plimsoll/internal/alloc"
	"github.com/plimsoll/plimsoll/internal/predict"
	"github.com/plimsoll/plimsoll/internal/report"
	"github.com/plimsoll/plimsoll/internal/shard"
	"github.com/plimsoll/plimsoll/internal/units"
)

// memory is what a configuration needs.
type memory struct {
	peak   report.PredictedPeak
	safe   units.Bytes // reserved bytes that are not expected to be exceeded
	params int64
	err    error
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
	return m
}

func (s *search) predict(k memoryKey) memory {
	s.predictions++
	return s.predictOf(k, s.part(k.layout))
}

func (s *search) predictOf(k memoryKey, src predict.Source) memory {
	j, machine := s.r.Job, s.r.Machine
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
	if k.conf != "" {
		conf, err := alloc.ParseConf(k.conf, machine.Torch)
		if err != nil {
			return memory{err: err}
		}
		machine.Conf = conf
	}
	if k.ranks > 1 || k.layout != whole {
		cut := shard.Plan{Kind: k.sharding, Ranks: k.ranks, Stages: k.layout.stages}
		return spread(predict.RunPart(j, src, machine, predict.Spread{Plan: cut, Tensor: k.layout.tensor}))
	}
	res, err := predict.Run(j, src, machine)
	if err != nil {
		return memory{err: err}
	}
	r := res.Report
	return memory{peak: r.Peak, safe: r.Safe, params: r.Params}
}

// spread reads what each of several cards needs.
func spread(res *predict.Result, err error) memory {
	if err != nil {
		return memory{err: err}
	}
	r := res.Report
	return memory{
		peak:   report.PredictedPeak{Allocated: r.Sharded.Allocated, Reserved: r.Sharded.Safe, Device: r.Sharded.Safe + r.ByCategory["context"]},
		safe:   r.Sharded.Safe,
		params: r.Params,
	}
}

// fits asks the bounds first: memory grows with the batch and falls with checkpointing, all else equal.
func (s *search) fits(p point, layers int) (memory, bool) {
	k := s.key(p, layers)
	if _, known := s.memories[k]; !known && s.hopeless(p, k) {
		return memory{}, false
	}
	m := s.need(k)
	fits := m.err == nil && m.safe <= s.room
	if !fits {
		column := k
		column.batch = 0
		if low, ok := s.tooLarge[column]; !ok || k.batch < low {
			s.tooLarge[column] = k.batch
		}
	}
	return m, fits
}

// hopeless tells that a point cannot fit without predicting it: a smaller batch did not, or state alone does not.
func (s *search) hopeless(p point, k memoryKey) bool {
	column := k
	column.batch = 0
	if low, ok := s.tooLarge[column]; ok && k.batch >= low {
		return true
	}
	if k.layers == 0 && !k.away { // with activations on the host a second run needs more
		column.layers = -1
		if low, ok := s.tooLarge[column]; ok && k.batch >= low {
			return true
		}
	}
	return s.floor(p, k.layers) > s.room || s.inUse(p, k) > s.room || s.shallowUse(k) > s.room
}

// shallowUse predicts two shallow stand-ins and draws the line to the full depth. What is in use at the peak is the highest of several sums that grow
// with the depth in straight lines, so the line lies below it, up to the rounding of a few blocks: far less than the one percent the safe bound allows.
// 0 where there are no stand-ins.
func (s *search) shallowUse(k memoryKey) units.Bytes {
	few, more, depth := s.shallow(k.layout)
	if few.Config == nil || k.ranks > 1 || k.layers > 0 {
		return 0
	}
	k.conf = ""
	if b, ok := s.shallowUses[k]; ok {
		return b
	}
	a, b := s.predictOf(k, few), s.predictOf(k, more)
	var line units.Bytes
	if a.err == nil && b.err == nil {
		line = a.peak.Allocated + unitsOf(int64(depth-shallowLayers))*(b.peak.Allocated-a.peak.Allocated)
	}
	s.shallowUses[k] = line
	return line
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

// inUse is a lower bound from a configuration that is known already: other allocator settings change what is held, not what is in use, and
// moving the optimizer to the host saves its state and the temporaries of its step.
func (s *search) inUse(p point, k memoryKey) units.Bytes {
	plain := k
	plain.conf, plain.optimizer = s.r.Conf, p.optimizer
	m, ok := s.memories[plain]
	if !ok || m.err != nil || s.r.GPUs > 1 {
		return 0
	}
	if !p.onHost(OffloadOptimizer) {
		return m.peak.Allocated
	}
	return m.peak.Allocated - units.Bytes(states[kind(p.optimizer)]+1)*s.weight(p.precision)
}

// states counts the tensors like the parameters that an optimizer keeps.
var states = map[string]int{
	"sgdm": 1, "adam": 2, "adamw": 2, "amsgrad": 3, "nadam": 2, "radam": 2, "adamax": 2, "adagrad": 1, "adadelta": 2, "rmsprop": 1, "asgd": 1, "rprop": 2,
}

// temporaries counts the lists like the parameters that the default implementation of a step holds for a moment.
var temporaries = map[string]int{
	"adam": 1, "adamw": 1, "amsgrad": 1, "nadam": 1, "radam": 1, "adamax": 1, "adagrad": 2, "adadelta": 2, "rmsprop": 1, "asgd": 1, "rprop": 1,
}

// floor is a lower bound of what a point asks for at once: in its optimizer's step, and in backward, with so many of its layers checkpointed.
func (s *search) floor(p point, layers int) units.Bytes {
	if s.r.GPUs > 1 {
		return s.sharedFloor(p, layers)
	}
	state, step := states[kind(p.optimizer)], temporaries[p.optimizer]
	if p.onHost(OffloadOptimizer) {
		state, step = 0, 0
	}
	weight := s.weight(p.precision)
	bound := units.Bytes(2+state+step) * weight
	live, ok := s.live(p, layers)
	if !ok {
		return bound
	}
	return max(bound, live+units.Bytes(state)*weight)
}

// sharedFloor is the same among cards, once the stream has run: activations count in full however the rest is shared, and of parameters and state every rank
// has its part.
func (s *search) sharedFloor(p point, layers int) units.Bytes {
	live, ok := s.live(p, layers)
	if !ok {
		return 0
	}
	facts := s.passes[p.pass(layers < 0)].facts
	state := states[kind(p.optimizer)]
	if p.onHost(OffloadOptimizer) {
		state = 0
	}
	return max(0, live-widthOf(p.precision)*unitsOf(facts.Params)-facts.Bytes) + units.Bytes(1+state)*facts.Bytes/units.Bytes(s.ranks(p.layout))
}

// live is the same for a pass alone, where its stream has run.
func (s *search) live(p point, layers int) (units.Bytes, bool) {
	of := func(checkpointed bool) (units.Bytes, bool) {
		t, ok := s.passes[p.pass(checkpointed)]
		if s.times(p) > 1 {
			return t.facts.Held, ok && t.err == nil
		}
		return t.facts.Live, ok && t.err == nil
	}
	if layers <= 0 {
		return of(layers < 0)
	}
	none, ok := of(false)
	all, known := of(true)
	return none + units.Bytes(s.keptShare(p.layout, layers)*float64(all-none)), ok && known
}

// weight is the size of what is trained.
func (s *search) weight(precision string) units.Bytes {
	return widthOf(precision) * unitsOf(s.trainable)
}

// widthOf a parameter.
func widthOf(precision string) units.Bytes {
	if precision == "bf16" || precision == "fp16" {
		return 2
	}
	return 4
}
