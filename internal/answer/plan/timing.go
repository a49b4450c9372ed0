package plan

import (
	"github.com/plimsoll/plimsoll/internal/answer/cost"
	"github.com/plimsoll/plimsoll/internal/answer/predict"
	"github.com/plimsoll/plimsoll/internal/model/eager"
	"github.com/plimsoll/plimsoll/internal/setup"
	"github.com/plimsoll/plimsoll/internal/torch"
)

// timed is a micro-batch of some configuration through the cost model.
type timed struct {
	step    cost.Step
	trained cost.Trained
	rates   cost.Rates
	facts   predict.Streamed
	err     error
}

// pass is what the time of a point's micro-batch depends on, with all of its layers checkpointed or none: a selective point lies between both.
func pass(p point) point {
	layers := 0
	if p.Checkpointing == setup.Full {
		layers = -1
	}
	return passWith(p, layers)
}

func passWith(p point, layers int) point {
	precision := p.Precision
	if l, err := p.Lower(); err == nil {
		precision = l.Compute.Precision
	}
	k := point{MicroBatch: p.MicroBatch, Precision: precision, Attn: p.Attn, Code: p.Code, Context: p.Context, Cut: p.Cut, Adapters: p.Adapters}.Checkpointed(layers)
	if p.Offload.Has(setup.OffloadActivations) {
		k.Offload = setup.OffloadActivations
	}
	return k
}

// walk is one stream to run: what a pass depends on, and the depth of a stand-in for a model whose layers are alike (0: its own). TF32 does not change it,
// and stages only cut between layers.
type walk struct {
	point
	depth int
}

// walked is what a walk of a stream came to.
type walked struct {
	step, tf32         cost.Step // without and with TF32
	facts              predict.Streamed
	batchNorm, dropout bool // it has what makes accumulation something else than a larger batch
	err                error
}

// streamed puts the time of a configuration together.
func (s *search) streamed(p point) timed {
	k := pass(p)
	if t, ok := s.passes[k]; ok {
		return t
	}
	t := s.stream(k)
	s.passes[k] = t
	return t
}

func (s *search) stream(k point) timed {
	rates, err := cost.Of(s.r.Machine.Card, k.Precision.TF32())
	if err != nil {
		return timed{err: err}
	}
	w := s.measure(k)
	if w.err != nil {
		return timed{err: w.err}
	}
	t := timed{step: w.step, facts: w.facts, rates: rates}
	if k.Precision.TF32() {
		t.step = w.tf32
	}
	t.trained = cost.Trained{Tensors: w.facts.Tensors, Elements: float64(w.facts.Trainable), Width: 4}
	if w.facts.Trainable > 0 {
		t.trained.Width = float64(w.facts.Bytes) / float64(w.facts.Trainable)
	}
	return t
}

// measure is the stream of one micro-batch. The layers of a deep model are alike, or recur, so its time is told by those of two shallow ones.
func (s *search) measure(k point) walked {
	keys, depth := s.walks(k)
	a := s.walk(keys[0])
	if len(keys) == 1 || a.err != nil {
		return a
	}
	b := s.walk(keys[1])
	if b.err != nil {
		return b
	}
	few, period := keys[0].depth, keys[1].depth-keys[0].depth
	n := (depth - few) / period
	steps := func(x, y cost.Step) cost.Step { return cost.Deepen(x, y, few/period, n) }
	fa, fb, count := a.facts, b.facts, int64(n)
	return walked{step: steps(a.step, b.step), tf32: steps(a.tf32, b.tf32), facts: predict.Streamed{
		Params: fa.Params + count*(fb.Params-fa.Params), Trainable: fa.Trainable + count*(fb.Trainable-fa.Trainable),
		Tensors: fa.Tensors + n*(fb.Tensors-fa.Tensors), Bytes: fa.Bytes + (fb.Bytes-fa.Bytes)*unitsOf(count),
		Layers: fa.Layers + n*(fb.Layers-fa.Layers), Kept: fb.Kept, Pinned: fa.Pinned + (fb.Pinned-fa.Pinned)*unitsOf(count),
	}}
}

// shallowLayers is how many layers the shallower stand-in has at least; the other has one more, or one of each kind.
const shallowLayers = 2

// walks are the streams that the time of a pass is read off: its own or, where layers are alike, those of two shallow stand-ins; and its depth.
func (s *search) walks(k point) ([]walk, int) {
	w := walk{point: k}
	w.Precision, w.Stages = k.Precision.SameMemory(), 0
	depth, period := 0, 1
	if c := s.part(k.Cut).Config; c != nil && len(s.r.Job.Freeze) == 0 {
		depth, period = c.Repeats(), c.Period()
	}
	shallow := max(shallowLayers, period) + depth%period
	switch {
	case depth == 0:
		w.Stages = k.Stages
	case depth > 2*(shallow+period):
		few, more := w, w
		few.depth, more.depth = shallow, shallow+period
		return []walk{few, more}, depth
	default:
		w.depth = depth
	}
	return []walk{w}, depth
}

// walk runs a stream once.
func (s *search) walk(k walk) walked {
	w, ok := s.walked[k]
	if !ok {
		w = s.follow(k, s.part(k.Cut))
		s.walked[k] = w
	}
	return w
}

// any tells whether some stream has a property.
func (s *search) any(has func(walked) bool) bool {
	for _, w := range s.walked {
		if has(w) {
			return true
		}
	}
	return false
}

// follow runs a stream through clocks; it may run in several goroutines.
func (s *search) follow(k walk, src predict.Source) walked {
	k.Loop = s.r.Job.Loop
	j := s.r.Job.With(k.point)
	if k.depth > 0 {
		src.Config = src.Config.WithDepth(k.depth)
	}
	rates, err := cost.Of(s.r.Machine.Card, false)
	if err != nil {
		return walked{err: err}
	}
	var w walked
	plain, other := cost.NewClock(rates), (*cost.Clock)(nil)
	if k.Precision == torch.PlainFP32 {
		rates.TF32On = true
		other = cost.NewClock(rates)
	}
	w.facts, w.err = predict.Stream(j, src, s.r.Machine, func(work eager.Work) {
		plain.See(work)
		if other != nil {
			other.See(work)
		}
		w.batchNorm = w.batchNorm || work.Kind == eager.Normalised
		w.dropout = w.dropout || work.Op == "aten::native_dropout" || work.Op == "aten::dropout_"
	})
	w.step = plain.Step()
	if other != nil {
		w.tf32 = other.Step()
	}
	return w
}

// duration is the time of one effective batch of a point, in seconds.
type duration struct {
	total, pass, optimizer float64
	hostBound              bool
}

// time adds up a point's effective batch.
func (s *search) time(p point) (duration, error) {
	t := s.streamed(p)
	if t.err != nil {
		return duration{}, t.err
	}
	step := t.step
	if p.Checkpointing == setup.Selective {
		all := s.streamed(p.Checkpointed(-1))
		if all.err != nil {
			return duration{}, all.err
		}
		share := s.spentShare(p.Cut, p.Layers)
		mix := func(a, b float64) float64 { return a + share*(b-a) }
		step.Seconds, step.GPU, step.Host = mix(step.Seconds, all.step.Seconds), mix(step.GPU, all.step.GPU), mix(step.Host, all.step.Host)
		step.Ahead = min(step.Ahead, step.Seconds)
	}
	times := s.times(p)
	d := duration{pass: step.Seconds + s.reduced(p) + s.rotated(p) + s.sent(p), hostBound: step.Waits()}
	trained := t.trained
	lowered, err := p.Lower()
	if err != nil {
		return duration{}, err
	}
	if lowered.Masters {
		trained.Width = float64(torch.FP32.Bytes())
	}
	if ranks := p.Ranks(); ranks > 1 && p.Sharding != setup.DDP { // each rank updates its part
		trained.Elements /= float64(p.Sharding.Shards(ranks))
	}
	if d.optimizer, err = t.rates.Optimizer(lowered.Compute.Optimizer, trained, step); err != nil {
		return duration{}, err
	}
	if p.Offload.Has(setup.OffloadOptimizer) {
		d.optimizer = cost.HostOptimizer(s.r.Machine.Card, trained)
	}
	compute := cost.Pipelined(d.pass, times, max(p.Stages, 1)) + float64(times-1)*t.rates.Accumulate(t.trained)
	d.total = s.communicated(p, compute, t.trained) + d.optimizer
	return d, nil
}
