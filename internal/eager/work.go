package eager

import (
	"github.com/plimsoll/plimsoll/internal/tensor"
	"github.com/plimsoll/plimsoll/internal/units"
)

// The stream of work is the second thing a step leaves behind beside its tape: what each operator computes, reads and writes, in the
// order of launches, and what the host does between them. A cost model turns it into time.

// Kind says what an entry of the stream is: a kernel of some class, or work of the host alone.
type Kind uint8

// Kinds of work. The first group launches kernels, the second keeps only the host busy, the last are copies over the host's link.
const (
	Pass        Kind = iota // reads and writes memory: elementwise, copies, norms, reductions, softmax
	Product                 // matrix products: Shape is batch, rows, columns, inner
	Fused                   // fused attention: Shape is batch·heads, query rows, key rows, head size
	Convolved               // convolution: Layout is what is copied from one memory format to another
	Normalised              // batch norm over channels (Shape[0]); Read and Written count every pass
	View                    // a view: no kernel
	Function                // a node of the backward graph begins
	Accumulated             // a gradient reaches its parameter
	Region                  // a checkpointed call begins, in forward or again in backward
	Kept                    // a tensor is saved inside a checkpointed call, or under another hook
	ToHost                  // a copy to the host's memory, which the host waits for
	FromHost                // a copy from there
)

// PhaseAgain is the phase of what a checkpoint computes a second time.
const PhaseAgain = "recompute"

// Work is one entry of the stream.
type Work struct {
	Op      string
	Module  string
	Phase   string
	Kind    Kind
	DType   tensor.DType // of the arithmetic
	Result  tensor.DType // of what is written
	FLOPs   float64
	Read    units.Bytes
	Written units.Bytes
	Kernels int // launches; 0 where only the host works
	Shape   [4]int
	Causal  bool
	Layout  units.Bytes
	Call    int       // of what a checkpointed call runs again: its number in the forward pass, from 1
	Conv    *ConvWork // of a convolution's forward pass
}

// ConvWork is what decides which kernel a convolution runs.
type ConvWork struct {
	Taps         int // product of the kernel's sides
	Groups       int
	Channels     int // of the input
	Rank         int
	ChannelsLast bool
}

// observe reports an operator of one kernel that passes over memory.
func (p *Process) observe(op string, d tensor.DType, flops float64, read, written units.Bytes) {
	p.work(Work{Op: op, DType: d, Result: d, FLOPs: flops, Read: read, Written: written, Kernels: 1})
}

// work reports an entry of the stream.
func (p *Process) work(w Work) {
	if p.Observe == nil {
		return
	}
	w.Module, w.Phase = p.module(), p.phase
	if p.again > 0 {
		w.Phase, w.Call = PhaseAgain, p.rerun
	}
	p.Observe(w)
}

// hostWork reports what keeps only the host busy.
func (p *Process) hostWork(k Kind) {
	if p.Observe != nil {
		p.work(Work{Op: p.op, Kind: k})
	}
}

// python tells whether the modelling code runs (forward, or a checkpoint again), not the backward engine's formulas.
func (p *Process) python() bool { return p.thread == 0 || p.again > 0 }

// multiply reports a matrix product.
func (p *Process) multiply(op string, d tensor.DType, batch, rows, cols, inner int) {
	if p.Observe == nil {
		return
	}
	n := units.Bytes(batch) * d.Width()
	p.work(Work{
		Op: op, Kind: Product, DType: d, Result: d, Kernels: 1, Shape: [4]int{batch, rows, cols, inner},
		FLOPs: 2 * float64(batch) * float64(rows) * float64(cols) * float64(inner),
		Read:  n * units.Bytes(inner) * units.Bytes(rows+cols), Written: n * units.Bytes(rows) * units.Bytes(cols),
	})
}

// multiplyGrad reports the product that gives the gradient of operand t; inner is the dimension it sums over.
func (p *Process) multiplyGrad(t, g *Tensor, inner int) {
	p.multiply(p.op, g.DType, t.Numel()/max(1, t.Dim(-2)*t.Dim(-1)), t.Dim(-2), t.Dim(-1), inner)
}

// stored is what a kernel has to read of a tensor: an expanded one has fewer elements in memory than in its shape.
func stored(t *Tensor) units.Bytes {
	if t.store.none {
		return t.Bytes()
	}
	return min(t.Bytes(), t.store.size())
}
