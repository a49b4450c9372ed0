package eager

import (
	"github.com/plimsoll/plimsoll/internal/model/tensor"
	"github.com/plimsoll/plimsoll/internal/units"
)

// fusedGrads are dq, dk, dv and the kernels' own buffers (attention_backward.cu, 2.11; cuDNN's workspace is measured).
func (p *Process) fusedGrads(n *Node, b backend, g *Tensor, out tensor.Layout, q, k, v *Tensor, a Attention) []*Tensor {
	var copies []*Tensor
	if b != cudnnBackend {
		copies = append(copies, p.seqFirst(g.Layout, g.DType))
	}
	if b == flashBackend {
		copies = append(copies, p.seqFirst(out, q.DType))
	}
	grads := []*Tensor{p.empty(gradLayout(b, q), q.DType), p.empty(gradLayout(b, k), k.DType), p.empty(gradLayout(b, v), v.DType), nil}
	if a.Mask != nil && n.needs(3) {
		grads[3] = p.maskGrad(a.Mask)
	}
	switch b {
	case cudnnBackend:
		p.cudnnScratch(q, k)
	case efficientBackend:
		p.efficientScratch(q)
	case flashBackend:
		p.flashScratch(torchFlashSizes(q, k), q.DType)
	}
	for i := range grads {
		if !n.needs(i) && grads[i] != nil {
			drop(grads[i])
			grads[i] = nil
		}
	}
	drop(copies...)
	return grads
}

// seqFirst copies what does not lie as [batch, seq, heads, dim]; nil where it does.
func (p *Process) seqFirst(l tensor.Layout, d tensor.DType) *Tensor {
	if l.Transpose(1, 2).IsContiguous() {
		return nil
	}
	return p.empty(tensor.Ordered(l.Sizes, []int{0, 2, 1, 3}), d)
}

// gradLayout: efficient attention lays gradients out as [batch, seq, heads, dim]; cuDNN and flash follow the operand.
func gradLayout(b backend, t *Tensor) tensor.Layout {
	if b == efficientBackend {
		return tensor.Ordered(t.Sizes, []int{0, 2, 1, 3})
	}
	return t.Like()
}

// maskGrad has rows padded to 16, of which the gradient is a view.
func (p *Process) maskGrad(mask *Tensor) *Tensor {
	sizes := append([]int(nil), mask.Sizes...)
	last := len(sizes) - 1
	sizes[last] = roundUp(sizes[last], 16)
	out := p.emptyOf(mask.DType, sizes...)
	out.Layout = out.Layout.Slice(last, mask.Sizes[last], 1)
	return out
}

// cudnnScratch: fp32 sums of dq and of rows; grouped heads add expanded dk and dv (measured).
func (p *Process) cudnnScratch(q, k *Tensor) {
	batch, heads, rows, dim := q.Dim(0), q.Dim(1), q.Dim(2), q.Dim(3)
	size := units.Bytes(batch*heads*rows*4)*units.Bytes(dim+1) + 256
	if heads != k.Dim(1) {
		size += 2 * 2 * units.Bytes(batch*heads*k.Dim(2)*dim)
	}
	p.scratch(size)
}

// efficientScratch: the row sums of gradient times result (in fp32 by way of their product), then fp32 sums of dq in blocks of 64
// rows and columns, and sixteen counters a head (measured for heads of 36, 64 and 80).
func (p *Process) efficientScratch(q *Tensor) {
	batch, heads, rows, dim := q.Dim(0), q.Dim(1), q.Dim(2), q.Dim(3)
	var product, sum *Tensor
	if q.DType == tensor.Float32 {
		product = p.emptyOf(tensor.Float32, batch, rows, heads, dim)
		sum = p.emptyOf(tensor.Float32, batch, rows, heads)
	}
	delta := p.emptyOf(tensor.Float32, batch, heads, rows)
	drop(product, sum)
	p.scratch(units.Bytes(batch*heads) * units.Bytes(4*(roundUp(rows, 64)*roundUp(dim, 64)+16)))
	drop(delta)
}
