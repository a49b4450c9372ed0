package eager

import (
	"slices"

	"github.com/plimsoll/plimsoll/internal/memory/tape"
	"github.com/plimsoll/plimsoll/internal/units"
)

// Non-reentrant activation checkpointing (torch/utils/checkpoint.py, 2.11): forward saves nothing but the
// arguments; the first saved tensor that backward asks for runs the function again, which stops as soon as the last
// tensor that has to be saved exists.

// checkpointFrame is one checkpointed call between its forward and the end of its backward.
type checkpointFrame struct {
	p      *Process
	number int               // among the calls of the forward pass, from 1
	seen   map[*storage]bool // while forward runs: what it would have saved, and its arguments
	run    func() []*Tensor
	args   []*Tensor
	given  []slot       // of a call under other hooks (a checkpointed call, the host): where these keep the arguments
	count  int          // tensors that forward would have saved
	refs   int          // slots that still point here
	again  []*storage   // recomputed tensors, each until it is handed out
	dead   map[int]bool // tensors whose node went before the second run: nobody will ask for them
	path   []*site      // of the call
	cast   *autocastState
}

type forwardHook struct{ frame *checkpointFrame }

func (h forwardHook) pack(t *Tensor) slot {
	f := h.frame
	f.refs++
	f.count++
	f.note(t.store)
	return slot{frame: f, index: f.count - 1}
}

// note counts what a call would have kept, once each: parameters and arguments are there anyway.
func (f *checkpointFrame) note(s *storage) {
	if s.none || f.seen[s] {
		return
	}
	f.seen[s] = true
	if e := &f.p.tape.Events[s.event]; f.p.tape.Owners[e.Owner].Category != tape.Parameters {
		f.p.kept[f.number-1] += e.Size
	}
}

// recomputeHook catches what the second run saves.
type recomputeHook struct{ frame *checkpointFrame }

// stopRecomputation unwinds the second run once everything needed exists (_StopRecomputationError).
type stopRecomputation struct{ frame *checkpointFrame }

func (h recomputeHook) pack(t *Tensor) slot {
	f := h.frame
	if f.dead[len(f.again)] {
		f.again = append(f.again, nil)
	} else {
		t.store.refs++
		f.again = append(f.again, t.store)
	}
	if len(f.again) == f.count {
		panic(stopRecomputation{f})
	}
	// The second run's own graph is never executed, but keeps what it saved for as long as something refers to it: a module that remembers its last state
	// (https://github.com/pytorch/pytorch/blob/v2.11.0/torch/utils/checkpoint.py, _recomputation_hook: pack_hook returns x.detach()).
	t.store.refs++
	return slot{store: t.store}
}

// Regions is the number of calls of the last forward pass that were checkpointed or left out.
func (p *Process) Regions() int { return p.regions }

// Kept is what each call of the last forward pass would have saved beside its arguments, had it not been checkpointed; 0 for those left out.
func (p *Process) Kept() []units.Bytes { return p.kept }

// chosen tells whether the running call is one of those that are checkpointed.
func (p *Process) chosen() bool {
	if p.CheckpointFirst == 0 {
		return true
	}
	at := p.regions - 1
	if p.CheckpointOrder != nil {
		at = slices.Index(p.CheckpointOrder, at)
	}
	return at >= 0 && at < p.CheckpointFirst
}

// Checkpoint runs a function without keeping its activations. args are the tensors it reads: they live until
// its backward is complete. Inside another checkpointed call the arguments are tensors which that call saves, so they too are
// computed again, and under save_on_cpu they are on the host (_NoopSaveInputs runs under the outer hooks).
func (p *Process) Checkpoint(run func() []*Tensor, args ...*Tensor) []*Tensor {
	if p.regions++; p.regions == 1 {
		p.kept = nil
	}
	p.kept = append(p.kept, 0)
	if !p.grad || !p.chosen() {
		return run()
	}
	p.hostWork(Region)
	f := &checkpointFrame{p: p, number: p.regions, seen: map[*storage]bool{}, run: run, path: slices.Clone(p.path), refs: 1}
	if p.casting != nil {
		f.cast = &autocastState{dtype: p.casting.dtype}
	}
	for _, a := range args {
		if a != nil {
			f.seen[a.store] = true
		}
		switch {
		case a == nil:
		case len(p.hooks) > 0:
			f.args = append(f.args, a)
			f.given = append(f.given, p.hooks[len(p.hooks)-1].pack(a))
		default:
			f.args = append(f.args, a.Retain())
		}
	}
	p.hooks = append(p.hooks, forwardHook{f})
	outs := run()
	p.hooks = p.hooks[:len(p.hooks)-1]
	f.seen = nil
	f.unref()
	return outs
}

// lose tells that the node of a saved tensor is gone: what was computed again for it goes, and nothing will be (holders are weakly referred to,
// https://github.com/pytorch/pytorch/blob/v2.11.0/torch/utils/checkpoint.py, _recomputation_hook).
func (f *checkpointFrame) lose(index int) {
	switch {
	case f.again == nil:
		if f.dead == nil {
			f.dead = map[int]bool{}
		}
		f.dead[index] = true
	case index < len(f.again) && f.again[index] != nil:
		f.again[index].release()
		f.again[index] = nil
	}
	f.unref()
}

func (f *checkpointFrame) unref() {
	f.refs--
	if f.refs > 0 {
		return
	}
	for _, s := range f.again {
		if s != nil {
			s.release()
		}
	}
	f.again = nil
	for i, a := range f.args {
		if f.given == nil {
			a.Release()
		} else if outer := f.given[i].frame; outer != nil {
			outer.unref()
		} else if store := f.given[i].store; store != nil {
			store.release()
		}
	}
	f.args = nil
}

// revive brings the arguments back that the outer hooks keep, for the time of the second run.
func (f *checkpointFrame) revive() {
	for i, s := range f.given {
		store, a := f.p.take(s), f.args[i]
		if a.refs > 0 {
			store.release()
			a.refs++
			continue
		}
		a.store, a.refs = store, 1
	}
}

// take hands out a recomputed tensor, running the function again at the first request.
func (f *checkpointFrame) take(index int) *storage {
	if f.again == nil {
		f.recompute()
	}
	if index < 0 || index >= len(f.again) || f.again[index] == nil {
		panic(fault("a checkpointed function saved %d tensors in its second run, %d in its first", len(f.again), f.count))
	}
	s := f.again[index]
	f.again[index] = nil
	return s
}

func (f *checkpointFrame) recompute() {
	p := f.p
	f.revive()
	path, cast, op, grad, rerun := p.path, p.casting, p.op, p.grad, p.rerun
	p.rerun = f.number
	p.path = slices.Clone(f.path)
	p.grad = true
	if f.cast != nil {
		p.casting = &autocastState{dtype: f.cast.dtype}
	}
	p.hooks = append(p.hooks, recomputeHook{f})
	outer, open := p.fresh, len(p.open)
	p.fresh = make([]*Tensor, 0, 64)
	f.refs++ // the run itself
	p.again++
	p.hostWork(Region)
	f.runUntilStopped()
	p.again--
	p.unwind(open)
	p.abandon()
	for _, t := range p.fresh {
		t.Drop()
	}
	p.fresh = outer
	p.hooks = p.hooks[:len(p.hooks)-1]
	if f.cast != nil {
		p.casting.clear()
	}
	p.path, p.casting, p.op, p.grad, p.rerun = path, cast, op, grad, rerun
	f.refs--
	for i := range f.given {
		f.args[i].Release()
	}
}

func (f *checkpointFrame) runUntilStopped() {
	defer func() {
		switch r := recover().(type) {
		case nil:
		case stopRecomputation:
			if r.frame != f {
				panic(r)
			}
		default:
			panic(r)
		}
	}()
	f.run()
}

// abandon takes the node apart that was being recorded when the run stopped: no tensor refers to it.
func (p *Process) abandon() {
	if n := p.latest; n != nil && n.refs == 0 && n.next != nil {
		n.refs++
		n.unref()
	}
	p.latest = nil
}

// unwind lets the frames of calls that were left by a stop go, innermost first.
func (p *Process) unwind(open int) {
	for len(p.open) > open {
		c := p.open[len(p.open)-1]
		c.ReturnAll()
	}
}
