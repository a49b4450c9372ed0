package eager

import (
	"slices"

	"github.com/plimsoll/plimsoll/internal/model/tensor"
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
	Convolved               // convolution: Shape is the narrower side of the matrix it computes, the input's channels and elements; Layout is what is copied from one memory format to another
	Normalised              // batch norm: Shape is channels, elements, elements of one channel of one sample (0: channels_last); Read and Written count every pass
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
	Op         string
	Module     string
	Phase      string
	Kind       Kind
	DType      tensor.DType // of the arithmetic
	Result     tensor.DType // of what is written
	FLOPs      float64
	Read       units.Bytes
	Written    units.Bytes
	Kernels    int // launches; 0 where only the host works
	Shape      [4]int
	Causal     bool
	Dropout    bool // fused attention that draws random numbers
	Align      int  // of a product: the largest power of two, at most 8, that divides every leading dimension
	Taps       int  // of a depthwise convolution in PyTorch's own kernels: elements of the filter; 0 for others
	Pace       Pace // of an elementwise kernel
	Layout     units.Bytes
	Call       int         // of what a checkpointed call runs again: its number in the forward pass, from 1
	Spare      units.Bytes // how much more it may take than the tape says: another plan of cuDNN's, a tensor from the host that finds no free block
	Doubt      units.Bytes // how much of that measured neighbours of a convolution really took, where they disagree
	Excess     units.Bytes // how much less than the tape says such neighbours took
	Unmeasured bool        // its workspace was never measured on this card: the tape holds none
}

// Pace says why an elementwise kernel cannot move several elements with one instruction (aten/src/ATen/native/cuda/CUDALoops.cuh, 2.11).
type Pace uint8

// Paces. The first is a kernel that can.
const (
	Vector  Pace = iota
	Strided      // an operand is broadcast, or not in the result's order
	Widened      // the result's type is wider than the operand's
	Mixed        // the operands' types differ
)

// pace of a kernel that reads some tensors and writes one.
func pace(out *Tensor, in ...*Tensor) Pace {
	slow := Vector
	for _, t := range in {
		switch {
		case t == nil || t.Rank() == 0:
		case t.DType != in[0].DType:
			return Mixed
		case !slices.Equal(t.Strides, out.Strides) || !t.Same(out.Sizes):
			slow = max(slow, Strided)
		case t.DType.Width() < out.DType.Width():
			slow = max(slow, Widened)
		}
	}
	return slow
}

// observePaced reports an elementwise operator of one kernel.
func (p *Process) observePaced(op string, flops float64, read units.Bytes, out *Tensor, slow Pace) {
	p.work(Work{Op: op, DType: out.DType, Result: out.DType, FLOPs: flops, Read: read, Written: out.Bytes(), Kernels: 1, Pace: slow})
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

// unsure reports an entry that may take other memory than the tape says.
func (p *Process) unsure(w Work) {
	if p.Unsure != nil {
		p.Unsure(w)
	}
	p.work(w)
}

// hostWork reports what keeps only the host busy.
func (p *Process) hostWork(k Kind) {
	if p.Observe != nil {
		p.work(Work{Op: p.op, Kind: k})
	}
}

// python tells whether the modelling code runs (forward, or a checkpoint again), not the backward engine's formulas.
func (p *Process) python() bool { return p.thread == 0 || p.again > 0 }

// multiply reports a matrix product; align is that of its operands.
func (p *Process) multiply(op string, d tensor.DType, align, batch, rows, cols, inner int) {
	if p.Observe == nil {
		return
	}
	n := units.Bytes(batch) * d.Width()
	p.work(Work{
		Op: op, Kind: Product, DType: d, Result: d, Kernels: 1, Align: align, Shape: [4]int{batch, rows, cols, inner},
		FLOPs: 2 * float64(batch) * float64(rows) * float64(cols) * float64(inner),
		Read:  n * units.Bytes(inner) * units.Bytes(rows+cols), Written: n * units.Bytes(rows) * units.Bytes(cols),
	})
}

// multiplyGrad reports the product that gives the gradient of operand t; inner is the dimension it sums over.
func (p *Process) multiplyGrad(t, g *Tensor, inner int) {
	p.multiply(p.op, g.DType, alignment(t, g), t.Numel()/max(1, t.Dim(-2)*t.Dim(-1)), t.Dim(-2), t.Dim(-1), inner)
}

// alignment is the largest power of two, at most 8, that divides the leading dimensions of matrices: what a BLAS kernel can load at once.
func alignment(matrices ...*Tensor) int {
	all := 8
	for _, t := range matrices {
		n := t.Rank()
		lead := t.Strides[n-2]
		if t.Strides[n-1] != 1 {
			lead = t.Strides[n-1]
		}
		all |= lead
	}
	return all & -all
}

// stored is what a kernel has to read of a tensor: an expanded one has fewer elements in memory than in its shape.
func stored(t *Tensor) units.Bytes {
	if t.store.none {
		return t.Bytes()
	}
	return min(t.Bytes(), t.store.size())
}
