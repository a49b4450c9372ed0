// Package eager is an eager PyTorch that only counts bytes.
//
// It takes the operators of a training step, called as a modelling file calls them and returns a tape: every request and release of
// device memory in the order PyTorch makes them, each with its owner. Tensors have storages with reference counts, autograd nodes
// hold what PyTorch's formulas save, a call holds its arguments until it returns, backward runs in the engine's order.
// No element is ever computed. A shape that contradicts itself is refused with an error by Train and by Guard; everything else a
// model may do wrong (using a value after its last reference) is a mistake of the family's code and refused the same way.
package eager

import (
	"errors"
	"fmt"
	"runtime"

	"github.com/plimsoll/plimsoll/internal/memory/tape"
	"github.com/plimsoll/plimsoll/internal/model/cudnn"
	"github.com/plimsoll/plimsoll/internal/model/tensor"
	"github.com/plimsoll/plimsoll/internal/units"
)

// Process is one Python process that trains on one card.
type Process struct {
	Benchmark *Benchmark // of cuDNN; nil: off
	Plans     Plans      // of cuDNN
	Device    Device
	Observe   func(Work) // called for every entry of the stream of work, where set
	Unsure    func(Work) // called for those that may take other memory than the tape says, where set

	// CheckpointFirst limits checkpointing to that many calls of every forward pass; 0: all of them. They are the first ones, or those that come first in
	// CheckpointOrder (calls, from 0). Of layers that are alike early ones are right: they run again when the activations of later ones are gone.
	CheckpointFirst int
	CheckpointOrder []int

	tokens     *Tensor // the first table that was looked up
	inputGrads bool    // what is found there has gradients
	named      bool    // the model says itself which results are those of input embeddings
	uncached   bool    // autocast keeps no casts of parameters

	dropout bool // the state of dropout between recurrent layers was made
	tape    tape.Tape
	sites   map[string]*site // by path
	moments map[tape.Moment]uint32

	path     []*site // the modules that run, innermost last
	category tape.Category
	op       string
	phase    string

	grad     bool // gradient mode
	still    bool // the model is in evaluation mode: nothing drops out
	sequence uint64
	hooks    []saveHook // innermost last: where saved tensors go (checkpointing, the host)
	casting  *autocastState
	thread   int // 0 the main thread, 1 the autograd engine's
	blas     [2]bool
	blasLt   [2]bool
	freed    []*Node // graph nodes waiting to be taken apart
	calls    []*Call // unused frames
	open     []*Call // running frames, innermost last
	regions  int     // checkpointed calls of the running forward pass, and those left out
	again    int     // checkpoints that are running again
	rerun    int     // number of the innermost of these, from 1
	kept     []units.Bytes
	fresh    []*Tensor // while a checkpoint runs again: every tensor it made
	latest   *Node     // the node that was recorded last
	layers   *layerLog // where set: which layer ran at each event
	seams    Seams
	walks    uint32 // over parameters so far

	retainGraph bool               // backward(retain_graph=True): nodes keep what they saved
	accumulated func(leaf *Tensor) // a hook of register_post_accumulate_grad_hook; nil: none

	pinned units.Bytes // host memory with what this forward pass saved there

	tensors  slab[Tensor]
	storages slab[storage]
	nodes    slab[Node]
	edges    slab[edge]
	grads    slab[*Tensor]
	results  slab[shaped]
	slots    slab[slot]
	modules  slab[Module]
}

// NewProcess starts a process on a card.
func NewProcess(d Device) *Process {
	p := &Process{
		Device: d, grad: true, category: tape.Activations,
		tape:  tape.Tape{Streams: []uint64{0}, Pools: make([][2]uint64, 1), Owners: make([]tape.Owner, 1)},
		sites: map[string]*site{}, moments: map[tape.Moment]uint32{},
	}
	root := p.siteOf("")
	root.owners = []uint32{0} // the unknown owner
	p.enter(root)
	return p
}

// Tape hands out what has been recorded so far.
func (p *Process) Tape() *tape.Tape { return &p.tape }

// Mark writes onto the tape that a phase begins.
func (p *Process) Mark(m tape.Moment) {
	i, ok := p.moments[m]
	if !ok {
		i = uint32(len(p.tape.Moments))
		p.moments[m] = i
		p.tape.Moments = append(p.tape.Moments, m)
	}
	p.layers.note(-1)
	p.tape.Events = append(p.tape.Events, tape.Event{Kind: tape.Mark, Owner: i})
}

// Fault is the value of a panic for a mistake in what is executed; Guard turns it into an error.
type Fault string

func (f Fault) Error() string { return string(f) }

func fault(format string, args ...any) Fault { return Fault(fmt.Sprintf(format, args...)) }

// refusal is the value of a panic for a setting that the model cannot be trained with; Guard hands its error out.
type refusal struct{ error }

// ErrMisfit is in the chain of an error of Guard where the description of the model is at fault, not a setting.
var ErrMisfit = errors.New("the model's operators do not fit together")

// Guard runs work and turns a Fault or a tensor.Mismatch into an error that names the module.
func (p *Process) Guard(work func()) (err error) {
	defer func() {
		switch r := recover().(type) {
		case nil:
		case refusal:
			err = r.error
		case Fault:
			err = fmt.Errorf("%w%s: %w", ErrMisfit, p.where(), r)
		case tensor.Mismatch:
			err = fmt.Errorf("%w%s: %w", ErrMisfit, p.where(), r)
		case runtime.Error: // a graph from a file may do what no model does; its operators run again in backward
			err = fmt.Errorf("%w%s: %w", ErrMisfit, p.where(), r)
		default:
			panic(r)
		}
	}()
	work()
	return nil
}

func (p *Process) where() string {
	if m := p.module(); m != "" {
		return " in " + m + " (" + p.op + ")"
	}
	return ""
}

// storage is one allocation and its reference count.
type storage struct {
	p     *Process
	id    uint32
	event uint32 // index of its Alloc event
	refs  int32
	none  bool // no device memory: zero bytes, or a scalar of the host
}

// size is what was asked for.
func (s *storage) size() units.Bytes {
	if s.none {
		return 0
	}
	return s.p.tape.Events[s.event].Size
}

// maxEvents bounds a tape (some 200 MB of events); the largest measured job has 60 thousand.
const maxEvents = 1 << 23

// alloc records a request. PyTorch allocates nothing for zero bytes.
func (p *Process) alloc(size units.Bytes) *storage {
	if size < 0 || size > 1<<50 {
		panic(fault("a tensor of %d bytes", size))
	}
	if len(p.tape.Events) > maxEvents {
		panic(fault("more than %d events: the model is too large to be computed", maxEvents))
	}
	if size == 0 {
		return &storage{p: p, refs: 1, none: true}
	}
	s := p.storages.one()
	*s = storage{p: p, id: uint32(p.tape.Allocs), event: uint32(len(p.tape.Events)), refs: 1}
	p.tape.Allocs++
	at := p.here()
	p.layers.note(at.layer)
	p.tape.Events = append(p.tape.Events, tape.Event{Kind: tape.Alloc, Owner: p.ownerAt(at, p.category, p.op), ID: s.id, Size: size})
	return s
}

// claim gives an allocation another category once its purpose is known (a gradient that reached its parameter).
func (s *storage) claim(c tape.Category, module, op string) {
	if s.none {
		return
	}
	s.p.tape.Events[s.event].Owner = s.p.ownerAt(s.p.siteOf(module), c, op)
}

func (s *storage) release() {
	s.refs--
	if s.refs > 0 || s.none {
		return
	}
	if s.refs < 0 {
		panic(fault("storage %d released twice", s.id))
	}
	a := &s.p.tape.Events[s.event]
	s.p.layers.note(s.p.here().layer)
	s.p.tape.Events = append(s.p.tape.Events, tape.Event{Kind: tape.Free, Owner: a.Owner, ID: s.id, Size: a.Size})
}

// scratch is a buffer an operator asks for and gives back before it returns.
func (p *Process) scratch(size units.Bytes) {
	if size <= 0 {
		return
	}
	was := p.category
	p.category = tape.Workspace
	s := p.alloc(size)
	p.category = was
	s.release()
}

// elastic is the workspace of a cuDNN call: asked for where there is room, done without where it is refused.
func (p *Process) elastic(n cudnn.Need) {
	before := len(p.tape.Events)
	p.scratch(n.Takes)
	if len(p.tape.Events) > before {
		p.tape.Events[before].Elastic = true
	}
}

// keepWorkspace allocates a buffer that a library never gives back.
func (p *Process) keepWorkspace(op string, size units.Bytes) {
	if size <= 0 {
		return
	}
	category, name := p.category, p.op
	p.category, p.op = tape.Workspace, op
	p.alloc(size)
	p.category, p.op = category, name
}

// useBlas makes sure the running thread has its cuBLAS workspace: one per handle and stream, never freed
// (aten/src/ATen/cuda/CublasHandlePool.cpp, 2.11). Handles belong to host threads, so forward and backward have one each.
func (p *Process) useBlas() {
	if !p.blas[p.thread] {
		p.blas[p.thread] = true
		p.keepWorkspace("cublas", p.Device.BlasWorkspace)
	}
}

// useBlasLt is the same for cuBLASLt, which addmm uses where a bias is added in the kernel's epilogue.
func (p *Process) useBlasLt() {
	p.useBlas()
	if !p.blasLt[p.thread] {
		p.blasLt[p.thread] = true
		p.keepWorkspace("cublasLt", p.Device.BlasLtWorkspace)
	}
}

// NoGrad runs work under torch.no_grad().
func (p *Process) NoGrad(work func()) {
	was := p.grad
	p.grad = false
	work()
	p.grad = was
}

// Empty allocates a tensor that the model itself makes (masks, positions, zeros).
func (p *Process) Empty(op string, d tensor.DType, sizes ...int) *Tensor {
	p.op = op
	return p.emptyOf(d, sizes...)
}
