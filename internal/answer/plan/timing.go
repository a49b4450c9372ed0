package plan

import (
	"github.com/plimsoll/plimsoll/internal/answer/cost"
	"github.com/plimsoll/plimsoll/internal/answer/predict"
	"github.com/plimsoll/plimsoll/internal/model/eager"
)

// timed is a micro-batch of some configuration through the cost model.
type timed struct {
	step    cost.Step
	trained cost.Trained
	rates   cost.Rates
	facts   predict.Streamed
	err     error
}

// passKey is what the time of a micro-batch depends on.
type passKey struct {
	batch           int
	precision, attn string
	checkpointed    bool
	away            bool // activations are on the host
	layout          layout
}

// pass is the key of a point's micro-batch, with all of its layers checkpointed or none.
func (p point) pass(checkpointed bool) passKey {
	return passKey{p.batch, p.precision, p.attn, checkpointed, p.onHost(OffloadActivations), p.layout}
}

// walkKey is what one walk of a stream depends on: TF32 does not change it, and stages only cut between layers.
type walkKey struct {
	batch              int
	params, cast, attn string
	checkpointed, away bool
	tensor             int
	stages             int // of a model whose layers are not alike
	depth              int // of a model whose layers are; 0: its own
}

// walked is what a walk of a stream came to.
type walked struct {
	step, tf32         cost.Step // without and with TF32
	facts              predict.Streamed
	batchNorm, dropout bool // it has what makes accumulation something else than a larger batch
	err                error
}

// streamed puts the time of a configuration together.
func (s *search) streamed(k passKey) timed {
	if t, ok := s.passes[k]; ok {
		return t
	}
	t := s.stream(k)
	s.passes[k] = t
	return t
}

func (s *search) stream(k passKey) timed {
	j := s.r.Job
	if err := j.SetPrecision(k.precision); err != nil {
		return timed{err: err}
	}
	rates, err := cost.Of(s.r.Machine.Card, j.TF32)
	if err != nil {
		return timed{err: err}
	}
	w := s.measure(k)
	if w.err != nil {
		return timed{err: w.err}
	}
	t := timed{step: w.step, facts: w.facts, rates: rates}
	if j.TF32 {
		t.step = w.tf32
	}
	t.trained = cost.Trained{Tensors: w.facts.Tensors, Elements: float64(w.facts.Trainable), Width: 4}
	if w.facts.Trainable > 0 {
		t.trained.Width = float64(w.facts.Bytes) / float64(w.facts.Trainable)
	}
	return t
}

// measure is the stream of one micro-batch. The layers of a deep model are alike, so its time is told by those of two shallow ones.
func (s *search) measure(k passKey) walked {
	keys, depth := s.walks(k)
	a := s.walk(keys[0])
	if len(keys) == 1 || a.err != nil {
		return a
	}
	b := s.walk(keys[1])
	if b.err != nil {
		return b
	}
	n := depth - shallowLayers
	steps := func(x, y cost.Step) cost.Step { return cost.Deepen(x, y, shallowLayers, n) }
	fa, fb, count := a.facts, b.facts, int64(n)
	return walked{step: steps(a.step, b.step), tf32: steps(a.tf32, b.tf32), facts: predict.Streamed{
		Params: fa.Params + count*(fb.Params-fa.Params), Trainable: fa.Trainable + count*(fb.Trainable-fa.Trainable),
		Tensors: fa.Tensors + n*(fb.Tensors-fa.Tensors), Bytes: fa.Bytes + (fb.Bytes-fa.Bytes)*unitsOf(count),
		Layers: fa.Layers + n*(fb.Layers-fa.Layers), Kept: fb.Kept, Pinned: fa.Pinned + (fb.Pinned-fa.Pinned)*unitsOf(count),
	}}
}

// shallowLayers is the depth of the shallower stand-in; the other has one more.
const shallowLayers = 2

// walks are the streams that the time of a configuration is read off: its own or, where layers are alike, those of two shallow stand-ins; and its depth.
func (s *search) walks(k passKey) ([]walkKey, int) {
	j := s.r.Job
	_ = j.SetPrecision(k.precision)
	w := walkKey{batch: k.batch, params: j.ParamDType, cast: j.Autocast, attn: k.attn, checkpointed: k.checkpointed, away: k.away, tensor: k.layout.tensor}
	depth := 0
	if c := s.part(k.layout).Config; c != nil && len(j.Freeze) == 0 {
		depth = c.Depth()
	}
	switch {
	case depth == 0:
		w.stages = k.layout.stages
	case depth > 2*shallowLayers+2:
		few, more := w, w
		few.depth, more.depth = shallowLayers, shallowLayers+1
		return []walkKey{few, more}, depth
	default:
		w.depth = depth
	}
	return []walkKey{w}, depth
}

// part is the layout whose part of the model is walked.
func (k walkKey) part() layout { return layout{k.tensor, k.stages} }

// walk runs a stream once.
func (s *search) walk(k walkKey) walked {
	w, ok := s.walked[k]
	if !ok {
		w = s.follow(k, s.part(k.part()))
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
func (s *search) follow(k walkKey, src predict.Source) walked {
	j := s.r.Job
	j.Batch, j.Attn, j.Checkpointing, j.Layers, j.OffloadActivations = k.batch, k.attn, k.checkpointed, 0, k.away
	j.ParamDType, j.Autocast, j.TF32 = k.params, k.cast, false
	if k.depth > 0 {
		src.Config = src.Config.WithDepth(k.depth)
	}
	rates, err := cost.Of(s.r.Machine.Card, false)
	if err != nil {
		return walked{err: err}
	}
	var w walked
	plain, other := cost.NewClock(rates), (*cost.Clock)(nil)
	if k.params == "fp32" && k.cast == "" {
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

// time adds up a point's effective batch. layers: how many are checkpointed of those that can be.
func (s *search) time(p point, layers int) (duration, error) {
	t := s.streamed(p.pass(p.checkpointing == Full))
	if t.err != nil {
		return duration{}, t.err
	}
	step, again := t.step, 0
	switch p.checkpointing {
	case Full:
		again = -1
	case Selective:
		all := s.streamed(p.pass(true))
		if all.err != nil {
			return duration{}, all.err
		}
		again = layers
		share := s.spentShare(p.layout, layers)
		mix := func(a, b float64) float64 { return a + share*(b-a) }
		step.Seconds, step.GPU, step.Host = mix(step.Seconds, all.step.Seconds), mix(step.GPU, all.step.GPU), mix(step.Host, all.step.Host)
		step.Ahead = min(step.Ahead, step.Seconds)
	}
	times := s.times(p)
	d := duration{pass: step.Seconds + s.reduced(p, again) + s.sent(p), hostBound: step.Waits()}
	trained := t.trained
	if ranks := s.ranks(p.layout); ranks > 1 && p.sharding != "ddp" { // each rank updates its part
		trained.Elements /= float64(ranks)
	}
	d.optimizer = t.rates.Optimizer(p.optimizer, trained, step)
	if p.onHost(OffloadOptimizer) {
		d.optimizer = cost.HostOptimizer(s.r.Machine.Card, trained)
	}
	compute := cost.Pipelined(d.pass, times, max(p.stages, 1)) + float64(times-1)*t.rates.Accumulate(t.trained)
	d.total = s.communicated(p, compute, t.trained) + d.optimizer
	return d, nil
}
