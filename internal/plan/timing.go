package plan

import (
	"github.com/plimsoll/plimsoll/internal/cost"
	"github.com/plimsoll/plimsoll/internal/eager"
	"github.com/plimsoll/plimsoll/internal/job"
	"github.com/plimsoll/plimsoll/internal/predict"
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

// streamed runs the stream of a configuration once.
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
	j.Batch, j.Attn, j.Checkpointing, j.Layers, j.OffloadActivations = k.batch, k.attn, k.checkpointed, 0, k.away
	if err := j.SetPrecision(k.precision); err != nil {
		return timed{err: err}
	}
	rates, err := cost.Of(s.r.Machine.Card, j.TF32)
	if err != nil {
		return timed{err: err}
	}
	step, facts, err := s.measure(j, k.layout, rates)
	if err != nil {
		return timed{err: err}
	}
	width := 4.0
	if facts.Trainable > 0 {
		width = float64(facts.Bytes) / float64(facts.Trainable)
	}
	return timed{step: step, facts: facts, rates: rates, trained: cost.Trained{Tensors: facts.Tensors, Elements: float64(facts.Trainable), Width: width}}
}

// measure walks the stream of one micro-batch. The layers of a deep model are alike, so its time is told by those of two shallow ones.
func (s *search) measure(j job.Job, cut layout, rates cost.Rates) (cost.Step, predict.Streamed, error) {
	few, more, layers := s.shallow(cut)
	if few.Config == nil {
		return s.walk(j, s.part(cut), rates)
	}
	a, fa, err := s.walk(j, few, rates)
	if err != nil {
		return a, fa, err
	}
	b, fb, err := s.walk(j, more, rates)
	if err != nil {
		return b, fb, err
	}
	step := cost.Deepen(a, b, shallowLayers, layers-shallowLayers)
	count := int64(layers - shallowLayers)
	return step, predict.Streamed{
		Params: fa.Params + count*(fb.Params-fa.Params), Trainable: fa.Trainable + count*(fb.Trainable-fa.Trainable),
		Tensors: fa.Tensors + int(count)*(fb.Tensors-fa.Tensors), Bytes: fa.Bytes + (fb.Bytes-fa.Bytes)*unitsOf(count),
		Layers: fa.Layers + int(count)*(fb.Layers-fa.Layers), Kept: fb.Kept, Pinned: fa.Pinned + (fb.Pinned-fa.Pinned)*unitsOf(count),
		// The peak is the highest of several sums that grow with the depth in straight lines: the line through two depths lies below it.
		Live: fa.Live + (fb.Live-fa.Live)*unitsOf(count), Held: fa.Held + (fb.Held-fa.Held)*unitsOf(count),
	}, nil
}

// shallowLayers is the depth of the shallower stand-in; the other has one more.
const shallowLayers = 2

// shallow gives two stand-ins of a deep model whose layers are alike, and its depth; nothing where there are none.
func (s *search) shallow(cut layout) (few, more predict.Source, layers int) {
	c := s.part(cut).Config
	if c == nil || len(s.r.Job.Freeze) > 0 {
		return few, more, 0
	}
	layers = c.Depth()
	if layers <= 2*shallowLayers+2 {
		return few, more, 0
	}
	few.Config, more.Config = c.WithDepth(shallowLayers), c.WithDepth(shallowLayers+1)
	return few, more, layers
}

func (s *search) walk(j job.Job, src predict.Source, rates cost.Rates) (cost.Step, predict.Streamed, error) {
	clock := cost.NewClock(rates)
	facts, err := predict.Stream(j, src, s.r.Machine, func(w eager.Work) {
		clock.See(w)
		s.notice(w)
	})
	return clock.Step(), facts, err
}

// notice remembers what makes accumulation something else than a larger batch.
func (s *search) notice(w eager.Work) {
	switch {
	case w.Kind == eager.Normalised:
		s.batchNorm = true
	case w.Op == "aten::native_dropout" || w.Op == "aten::dropout_":
		s.dropout = true
	}
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
