package predict

import (
	"errors"
	"sync"

	"github.com/plimsoll/plimsoll/internal/eager"
	"github.com/plimsoll/plimsoll/internal/job"
	"github.com/plimsoll/plimsoll/internal/reel"
	"github.com/plimsoll/plimsoll/internal/tape"
)

// Shelf answers many questions about the memory of one job, varied, at a fraction of the price of as many Runs, and with the same numbers. The passes of a
// step do not depend on the optimizer, nor on allocator settings, nor on how cards share the work; layers are alike; the third step is like the second. So few
// short runs are made, and kept as reels (package reel). Safe for concurrent use.
type Shelf struct {
	src Source
	m   Machine

	mu    sync.Mutex
	reels map[reelKey]func() recorded
	turns map[turnsKey]func() (reel.Turns, error)
}

// NewShelf makes an empty shelf for a model on a machine.
func NewShelf(src Source, m Machine) *Shelf {
	m.Observe = nil
	return &Shelf{src: src, m: m, reels: map[reelKey]func() recorded{}, turns: map[turnsKey]func() (reel.Turns, error){}}
}

// reelKey is what the passes of a job depend on, of what is varied.
type reelKey struct {
	batch, seq, accumulate int
	params, cast           string
	attn, loop             string
	checkpointing          bool
	layers                 [2]int // of each zone of the recording; zero: the whole model is recorded
	adapters               int
}

// turnsKey is what an optimizer's turns depend on.
type turnsKey struct {
	optimizer, params, cast string
	adapters                int
}

// recorded is a reel and what was learned beside it.
type recorded struct {
	reel    *reel.Reel
	zones   []int // to play it with; nil: it is the whole model
	conv    convolutions
	process *eager.Process // of which only the libraries' workspaces are looked at
	trained map[string]bool
	err     error
}

// zones are the stretches of equal layers of a job: checkpointed ones and others. None where its layers are not alike.
func (s *Shelf) zones(j job.Job) []int {
	if s.src.Config == nil || len(j.Freeze) > 0 {
		return nil
	}
	depth := s.src.Config.Depth()
	switch {
	case depth < 2:
		return nil
	case j.Checkpointing && j.Layers > 0 && j.Layers < depth:
		return []int{j.Layers, depth - j.Layers}
	}
	return []int{depth}
}

// record makes the reel of a job with so many layers in its zones, nil: the whole model.
func (s *Shelf) record(j job.Job, zones []int) recorded {
	src := s.src
	if zones != nil {
		depth := 0
		for _, n := range zones {
			depth += n
		}
		src.Config = src.Config.WithDepth(depth)
		if len(zones) > 1 {
			j.Layers = zones[0]
		}
	}
	j.Optimizer = "sgd" // does nothing in its turns
	var out recorded
	p, model, conv, err := train(j, src, s.m, 2, (*eager.Process).TrackLayers)
	if err != nil {
		return recorded{err: err}
	}
	out.conv = conv
	out.process = p
	seams := p.Seams()
	out.reel, out.err = reel.Cut(reel.Recording{Tape: p.Tape(), Layers: p.Layers(), Made: seams.Made, Steps: seams.Steps, Zones: zones})
	out.trained = map[string]bool{}
	for _, name := range eager.Trained(model.Root()) {
		out.trained[alike(name)] = true
	}
	return out
}

// reelOf is the reel of a job, with the zones it is to be played with.
func (s *Shelf) reelOf(j job.Job) recorded {
	zones := s.zones(j)
	if zones != nil {
		short := make([]int, len(zones))
		for i, n := range zones {
			short[i] = min(n, reel.Least)
		}
		if r := s.remembered(j, short); !errors.Is(r.err, reel.ErrIrregular) {
			r.zones = zones
			return r
		}
	}
	return s.remembered(j, nil)
}

func (s *Shelf) remembered(j job.Job, zones []int) recorded {
	k := reelKey{
		batch: j.Batch, seq: j.Seq, accumulate: j.Accumulate, params: j.ParamDType, cast: j.Autocast, attn: j.Attn, loop: j.Loop,
		checkpointing: j.Checkpointing, adapters: j.LoRARank,
	}
	copy(k.layers[:], zones)
	if zones == nil {
		k.layers[1] = -j.Layers
	}
	s.mu.Lock()
	once, ok := s.reels[k]
	if !ok {
		once = sync.OnceValue(func() recorded { return s.record(j, zones) })
		s.reels[k] = once
	}
	s.mu.Unlock()
	return once()
}

// turnsOf are the optimizer's turns over the whole model.
func (s *Shelf) turnsOf(j job.Job, r recorded) (reel.Turns, error) {
	k := turnsKey{optimizer: j.Optimizer, params: j.ParamDType, cast: j.Autocast, adapters: j.LoRARank}
	s.mu.Lock()
	once, ok := s.turns[k]
	if !ok {
		once = sync.OnceValues(func() (reel.Turns, error) { return s.optimize(j, r) })
		s.turns[k] = once
	}
	s.mu.Unlock()
	return once()
}

func (s *Shelf) optimize(j job.Job, r recorded) (reel.Turns, error) {
	p := eager.NewProcess(s.m.device())
	var model eager.Model
	var err error
	if crash := p.Guard(func() { model, err = build(p, j, s.src) }); crash != nil {
		err = crash
	}
	if err != nil {
		return reel.Turns{}, err
	}
	t, err := p.Turns(model, options(j), func(name string) bool { return r.trained[alike(name)] }, r.process)
	return reel.Turns{Owners: t.Owners, Made: t.Made, First: t.First, Later: t.Later}, err
}

// tapeOf is the tape of three steps of a job, as a Run would record it.
func (s *Shelf) tapeOf(j job.Job) (*tape.Tape, recorded, error) {
	r := s.reelOf(j)
	if r.err != nil {
		return nil, r, r.err
	}
	turns, err := s.turnsOf(j, r)
	if err != nil {
		return nil, r, err
	}
	t, err := r.reel.Write(r.zones, turns)
	return t, r, err
}
