package eager

import (
	"github.com/plimsoll/plimsoll/internal/memory/tape"
	"github.com/plimsoll/plimsoll/internal/torch"
)

// What an optimizer does depends on the parameters alone, and the passes of a step do not depend on the optimizer. So a tape can be cut: into passes with
// a place for each of the optimizer's turns, and the turns.

// Seams are the events of a tape before which the optimizer has its turns.
type Seams struct {
	Made  int   // where it is made
	Steps []int // where each of its steps runs
}

// Seams tells where the optimizer had its turns.
func (p *Process) Seams() Seams { return p.seams }

// TrackLayers makes the process remember which repeated layer ran at each event. To be called before anything else.
func (p *Process) TrackLayers() { p.layers = &layerLog{} }

// Layers tells for every event of the tape the repeated layer that ran, -1 for none.
func (p *Process) Layers() []int32 { return p.layers.at }

// layerLog notes the layer of every event; nil notes nothing.
type layerLog struct{ at []int32 }

func (l *layerLog) note(layer int32) {
	if l != nil {
		l.at = append(l.at, layer)
	}
}

// Turns are what an optimizer does by itself. Identifiers begin at zero in each.
type Turns struct {
	Owners []tape.Owner
	Made   []tape.Event // when it is made
	First  []tape.Event // its first step
	Later  []tape.Event // every further one
}

// Workspaces are the libraries' buffers that a process has made.
type Workspaces struct{ blas, blasLt [2]bool }

// Workspaces tells which there are.
func (p *Process) Workspaces() Workspaces { return Workspaces{p.blas, p.blasLt} }

// Bench is a loaded model with gradients but without passes, on which optimizers have their turns one after the other.
type Bench struct {
	p      *Process
	params []*Tensor
	has    Workspaces
	op     string // what ran last when the model was loaded
	loaded int    // events until then
}

// NewBench sets a model up in a process of its own. trained tells by its name whether a parameter gets a gradient; has are the workspaces that
// the passes have made.
func (p *Process) NewBench(m Model, o Options, trained func(name string) bool, has Workspaces) (*Bench, error) {
	b := &Bench{p: p, has: has}
	err := p.Guard(func() {
		p.load(m, o)
		b.params, b.op = trainable(m.Root()), p.op
		for _, t := range b.params {
			if trained(t.Name) {
				t.grad = p.empty(t.Layout, t.DType).Retain()
			}
		}
		b.loaded = len(p.tape.Events)
	})
	return b, err
}

// Turns runs an optimizer.
func (b *Bench) Turns(optimizer torch.Optimizer) (Turns, error) {
	p := b.p
	p.blas, p.blasLt, p.op = b.has.blas, b.has.blasLt, b.op
	var out Turns
	err := p.Guard(func() {
		made := len(p.tape.Events)
		opt, err := newOptimizer(p, optimizer, b.params)
		if err != nil {
			panic(refusal{err})
		}
		out.Made = p.turn(made)
		first := len(p.tape.Events)
		opt.step()
		out.First = p.turn(first)
		later := len(p.tape.Events)
		opt.step()
		out.Later = p.turn(later)
		out.Owners = p.tape.Owners
	})
	p.tape.Events = p.tape.Events[:b.loaded] // nothing of the optimizer is left
	return out, err
}

// turn cuts the events since one out of the tape, with identifiers of their own.
func (p *Process) turn(since int) []tape.Event {
	out := append([]tape.Event(nil), p.tape.Events[since:]...)
	var base uint32
	for i := range out {
		if out[i].Kind == tape.Alloc {
			base = out[i].ID
			break
		}
	}
	for i := range out {
		if out[i].ID < base {
			panic(fault("an optimizer's step lets something go that was there before"))
		}
		out[i].ID -= base
	}
	return out
}

// Trained lists the names of the parameters that have gradients.
func Trained(m *Module) []string {
	var out []string
	for _, t := range m.Parameters() {
		if t.grad != nil {
			out = append(out, t.Name)
		}
	}
	return out
}
