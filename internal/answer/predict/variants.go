package predict

import (
	"errors"
	"fmt"
	"sync"

	"github.com/plimsoll/plimsoll/internal/memory/alloc"
	"github.com/plimsoll/plimsoll/internal/memory/tape"
	"github.com/plimsoll/plimsoll/internal/model/deepen"
	"github.com/plimsoll/plimsoll/internal/model/eager"
	"github.com/plimsoll/plimsoll/internal/model/job"
	"github.com/plimsoll/plimsoll/internal/model/shard"
	"github.com/plimsoll/plimsoll/internal/setup"
	"github.com/plimsoll/plimsoll/internal/torch"
	"github.com/plimsoll/plimsoll/internal/units"
)

// Variants answers many questions about the memory of one job, varied, at a fraction of the price of as many Runs, and with the same numbers. The passes of a
// step do not depend on the optimizer, nor on allocator settings, nor on how cards share the work; layers are alike; the third step is like the second. So few
// short runs are made, and kept as recordings that can be deepened (package deepen). May be varied: what a setup.Setup says, and the tokens of a sample. Safe for concurrent use.
type Variants struct {
	src Source
	m   Machine

	uneven   uneven
	parts    memo[setup.Cut, divided]
	short    memo[key, recorded] // of few layers
	wholes   memo[key, recorded] // of models whose layers are not alike; the latest ones
	outlines memo[key, outlined]
	turns    memo[key, turned]
	benches  memo[key, *bench]
	models   memo[key, modelled]
	plays    memo[playing, playedOut]
	ranks    memo[playing, taped] // under fully_shard; the latest ones
}

// NewVariants knows nothing yet about a model on a machine.
func NewVariants(src Source, m Machine) *Variants {
	m.Observe = nil
	return &Variants{src: src, m: m, wholes: memo[key, recorded]{most: keptWhole}, ranks: memo[playing, taped]{most: keptRanks}}
}

// keptWhole is how many recordings of whole models are kept: they are large, and asked for again soon or never.
const keptWhole = 16

// keptRanks is how many tapes of ranks are kept: the points of a group differ in allocator settings, and are asked for one after the other.
const keptRanks = 4

// key is what an answer depends on: a setup whose other fields are zero, and what a job says beside it.
type key struct {
	setup.Setup
	seq   int    // tokens of a sample
	zero  string // when gradients are let go
	order string // of layers to checkpoint; of all there is one
	zones [2]int // layers that were recorded of each zone; zero: all
	made  eager.Workspaces
}

// playing is what reserved bytes depend on.
type playing struct {
	key
	conf  alloc.Conf
	plan  shard.Plan // of one rank under fully_shard
	micro int
}

type divided struct {
	src Source
	err error
}

// uneven remembers from how many tokens of a sample on layers were not alike after a period where those of a longer period were: a window of attention, perhaps, that short samples do not reach. A
// period that is left out for it only costs a longer recording.
type uneven struct {
	mu   sync.Mutex
	from map[int]int // by period
}

func (u *uneven) found(period, seq int) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if from, ok := u.from[period]; !ok || seq < from {
		if u.from == nil {
			u.from = map[int]int{}
		}
		u.from[period] = seq
	}
}

func (u *uneven) known(period, seq int) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	from, ok := u.from[period]
	return ok && seq >= from
}

// recorded is a template and what was learned beside it.
type recorded struct {
	template *deepen.Template
	zones    []int // to play it with; nil: it is the whole model
	facts    facts
	err      error
}

// facts are what a recording tells beside its template.
type facts struct {
	conv    convolutions
	made    eager.Workspaces
	trained map[string]bool
	unknown []string // operators nobody has written down
}

// bench is used by one optimizer at a time.
type bench struct {
	*eager.Bench
	model eager.Model
	mu    sync.Mutex
	err   error
}

type turned struct {
	turns  deepen.Turns
	sketch deepen.Sketch
	err    error
}

// modelled is what all variants of a job with the same parameters have in common.
type modelled struct {
	model shard.Model
	rest  deepen.Instant // when the optimizer's step begins: parameters and gradients alone
	facts facts          // of one of them
	err   error
}

type outlined struct {
	outline deepen.Outline
	facts   facts
	err     error
}

// memo remembers the answers to questions; each is computed once, unless it has been forgotten.
type memo[K comparable, V any] struct {
	most  int // answers to remember; 0: all
	mu    sync.Mutex
	known map[K]func() V
	order []K // of those it may forget, oldest first
}

func (m *memo[K, V]) get(k K, compute func() V) V {
	m.mu.Lock()
	once, ok := m.known[k]
	if !ok {
		if m.known == nil {
			m.known = map[K]func() V{}
		}
		once = sync.OnceValue(compute)
		m.known[k] = once
		if m.most > 0 {
			if m.order = append(m.order, k); len(m.order) > m.most {
				delete(m.known, m.order[0])
				m.order = m.order[1:]
			}
		}
	}
	m.mu.Unlock()
	return once()
}

// passesOf is what the passes of a job depend on: not the optimizer.
func passesOf(j job.Job, c setup.Cut) key {
	k := key{Setup: j.Setup(), seq: j.Seq, zero: j.ZeroGrad}
	k.Cut, k.Optimizer, k.Precision, k.GPUs = c, "", k.Precision.SameMemory(), 0
	if k.Checkpointing == setup.Selective && j.Order != nil {
		k.order = fmt.Sprint(j.Order)
	}
	return k
}

// parametersOf is what the parameters of a job depend on.
func parametersOf(j job.Job, c setup.Cut) key {
	k := key{Setup: setup.Setup{Precision: torch.PrecisionOf(j.ParamDType, "", false), Adapters: j.Adapters(), Cut: c, Code: j.Code}}
	if j.Code != "" { // torchtitan keeps a buffer with a row for each position of a sample
		k.seq = j.Seq
	}
	return k
}

// turnOf is what the turns of an optimizer depend on.
func turnOf(j job.Job, c setup.Cut) key {
	k := parametersOf(j, c)
	k.Optimizer = j.Optimizer
	return k
}

// part is the model that is left on one card.
func (s *Variants) part(c setup.Cut) (Source, error) {
	if c.Tensor < 2 && c.Stages < 2 {
		return s.src, nil
	}
	d := s.parts.get(c, func() divided {
		src, err := Divide(s.src, c.Tensor, c.Stages)
		return divided{src, err}
	})
	return d.src, d.err
}

// templateOf is the template of a job, with the zones it is to be played with.
func (s *Variants) templateOf(j job.Job, c setup.Cut) recorded {
	src, err := s.part(c)
	if err != nil {
		return recorded{err: err}
	}
	tries := ways(src, j)
	var failed []int
	for i, way := range tries {
		if i < len(tries)-1 && s.uneven.known(way.period, j.Seq) {
			continue
		}
		k := passesOf(j, setup.Cut{Tensor: c.Tensor}) // stages cut between layers
		k.Layers, k.order = 0, fmt.Sprint(way.order)
		copy(k.zones[:], way.short)
		r := s.short.get(k, func() recorded { return s.record(j, src, way) })
		if errors.Is(r.err, deepen.ErrIrregular) {
			failed = append(failed, way.period)
			continue
		}
		for _, period := range failed {
			s.uneven.found(period, j.Seq)
		}
		r.zones = way.zones
		return r
	}
	return s.wholes.get(passesOf(j, c), func() recorded { return s.record(j, src, stretch{}) })
}

// errInBackward: passes and optimizer are recorded apart here.
var errInBackward = errors.New("optimizer_in_backward is predicted for one batch on one card only (plimsoll predict without --lengths and --gpus)")

// record makes the template of a job in few layers; none: of the whole model.
func (s *Variants) record(j job.Job, src Source, way stretch) recorded {
	if j.InBackward {
		return recorded{err: errInBackward}
	}
	rec, f, err := s.rehearse(j, src, way)
	if err != nil {
		return recorded{err: err}
	}
	out := recorded{facts: f}
	out.template, out.err = deepen.Cut(rec)
	return out
}

// rehearse runs two steps of a job in few layers; none: of the whole model.
func (s *Variants) rehearse(j job.Job, src Source, way stretch) (deepen.Recording, facts, error) {
	if way.short != nil {
		var err error
		if src, err = src.withDepth(j, total(way.short)); err != nil {
			return deepen.Recording{}, facts{}, err
		}
		j.Layers, j.Order = way.first, way.order
		j.CheckpointModules = nil // those of the shorter model
	}
	j.Optimizer = torch.Stateless // does nothing in its turns
	p, model, conv, err := train(j, src, s.m, 2, (*eager.Process).TrackLayers)
	if err != nil {
		return deepen.Recording{}, facts{}, err
	}
	f := facts{conv: conv, made: p.Workspaces(), trained: map[string]bool{}, unknown: unknown(model)}
	trained := map[string]bool{}
	for _, name := range eager.Trained(model.Root()) {
		trained[name], f.trained[alike(name)] = true, true
	}
	for _, t := range model.Root().Parameters() {
		if way.short != nil && t.RequiresGrad() && f.trained[alike(t.Name)] && !trained[t.Name] {
			return deepen.Recording{}, facts{}, fmt.Errorf("%s gets no gradient, its like in another layer does: %w", t.Name, deepen.ErrIrregular)
		}
	}
	seams := p.Seams()
	return deepen.Recording{Tape: p.Tape(), Layers: p.Layers(), Made: seams.Made, Steps: seams.Steps, Zones: way.short, Period: way.period}, f, nil
}

// turnsOf are the optimizer's turns over the whole model. f: of any recording of it.
func (s *Variants) turnsOf(j job.Job, c setup.Cut, f facts) turned {
	k := turnOf(j, c)
	k.made = f.made
	return s.turns.get(k, func() turned {
		b := s.benchOf(j, c, f)
		b.mu.Lock()
		defer b.mu.Unlock()
		if b.err != nil {
			return turned{err: b.err}
		}
		t, err := b.Turns(j.Optimizer)
		turns := deepen.Turns{Owners: t.Owners, Made: t.Made, First: t.First, Later: t.Later}
		return turned{turns, turns.Sketch(), err}
	})
}

// benchOf is the whole model, for optimizers to have their turns on.
func (s *Variants) benchOf(j job.Job, c setup.Cut, f facts) *bench {
	k := parametersOf(j, c)
	k.made = f.made
	return s.benches.get(k, func() *bench { return s.bench(j, c, f) })
}

// bench sets up what optimizers have their turns on.
func (s *Variants) bench(j job.Job, c setup.Cut, f facts) *bench {
	src, err := s.part(c)
	if err != nil {
		return &bench{err: err}
	}
	p := eager.NewProcess(s.m.device())
	var model eager.Model
	if crash := p.Guard(func() { model, err = build(p, j, src) }); crash != nil {
		err = crash
	}
	if err != nil {
		return &bench{err: err}
	}
	out := &bench{model: model}
	out.Bench, out.err = p.NewBench(model, options(j), func(name string) bool { return f.trained[alike(name)] }, f.made)
	return out
}

// tapeOf is the tape of three steps of a job, as a Run would record it.
func (s *Variants) tapeOf(j job.Job, c setup.Cut) (*tape.Tape, recorded, error) {
	r := s.templateOf(j, c)
	if r.err != nil {
		return nil, r, r.err
	}
	t := s.turnsOf(j, c, r.facts)
	if t.err != nil {
		return nil, r, t.err
	}
	out, err := r.template.Write(r.zones, t.turns)
	return out, r, err
}

// modelOf is what sharding needs to know of a job.
func (s *Variants) modelOf(j job.Job, c setup.Cut) modelled {
	m := s.models.get(parametersOf(j, c), func() modelled { return s.model(j, c) })
	if m.err != nil { // another variant's, perhaps
		return s.model(j, c)
	}
	return m
}

func (s *Variants) model(j job.Job, c setup.Cut) modelled {
	t, _, err := s.tapeOf(j, c)
	if err != nil {
		return modelled{err: err}
	}
	o := s.outlineOf(j, c)
	out := modelled{model: shard.Measure(t), facts: o.facts, err: o.err}
	out.rest.Backward = true
	for _, category := range []tape.Category{tape.Parameters, tape.Gradients} {
		out.rest.Held[category] = o.outline.Settled[1][category]
	}
	return out
}

// asked is the most that a measure of moments reaches in a job.
func (s *Variants) asked(j job.Job, c setup.Cut, value func(deepen.Instant) units.Bytes) (units.Bytes, facts, error) {
	o := s.outlineOf(j, c)
	if o.err != nil {
		return 0, o.facts, o.err
	}
	t := s.turnsOf(j, c, o.facts)
	return o.outline.Highest(t.sketch, value), o.facts, t.err
}

// outlineOf is the outline of a job's passes.
func (s *Variants) outlineOf(j job.Job, c setup.Cut) outlined {
	return s.outlines.get(passesOf(j, c), func() outlined {
		r := s.templateOf(j, c)
		if r.err != nil {
			return outlined{err: r.err}
		}
		o, err := r.template.Outline(r.zones)
		return outlined{o, r.facts, err}
	})
}
