package eager

import (
	"slices"

	"github.com/plimsoll/plimsoll/internal/model/tensor"
)

// Linear is F.linear: x·wᵀ + b. With a bias and a 2-D or contiguous input it is one addmm on a flattened view, else a
// matmul to which the bias is added in place (https://github.com/pytorch/pytorch/blob/v2.11.0/aten/src/ATen/native/Linear.cpp, linear). Autocast casts the last argument first.
func Linear(x, w, b *Tensor) *Tensor {
	p := x.p
	bias := p.lower(b)
	weight := p.lower(w)
	in := p.lower(x)
	var out *Tensor
	switch {
	case bias != nil && in.Rank() == 2:
		out = p.addmm(bias, in, weight.Transpose(0, 1))
	case bias != nil && in.IsContiguous():
		lead := append(slices.Clone(in.Sizes[:in.Rank()-1]), -1)
		out = p.addmm(bias, in.View(-1, in.Dim(-1)), weight.Transpose(0, 1)).View(lead...)
	default:
		out = Matmul(in, weight.Transpose(0, 1))
		if bias != nil {
			out.AddInPlace(bias)
		}
	}
	drop(bias, b, weight, w)
	return out
}

// addmm saves each matrix where the other needs a gradient; the bias gradient is summed when the engine checks it.
func (p *Process) addmm(bias, a, b *Tensor) *Tensor {
	p.op = "aten::addmm"
	n := p.record("AddmmBackward0", bias, a, b)
	n.saveIf(n.needs(2), a)
	n.saveIf(n.needs(1), b)
	out := n.out(p.product("aten::addmm", a, b))
	p.useBlasLt()
	n.backward(func(g []*Tensor) []*Tensor {
		grads := []*Tensor{nil, nil, nil}
		if n.needs(0) {
			grads[0] = g[0]
		}
		if n.needs(1) {
			grads[1] = p.productLike(a, g[0], g[0].Dim(-1))
		}
		if n.needs(2) {
			grads[2] = p.productLike(b, g[0], g[0].Dim(-2))
		}
		return grads
	})
	drop(bias, a, b)
	return out
}

// mm multiplies two matrices. Formulas run, and saved tensors go, in the alphabetical order of their names: mat2, self
// (tools/autograd/gen_autograd_functions.py sorts them; seen in a recorded trace).
func (p *Process) mm(a, b *Tensor) *Tensor {
	p.op = "aten::mm"
	n := p.record("MmBackward0", a, b)
	n.saveIf(n.needs(0), b)
	n.saveIf(n.needs(1), a)
	out := n.out(p.product("aten::mm", a, b))
	n.backward(func(g []*Tensor) []*Tensor {
		grads := make([]*Tensor, 2)
		if n.needs(1) {
			grads[1] = p.productLike(b, g[0], g[0].Dim(-2))
		}
		if n.needs(0) {
			grads[0] = p.productLike(a, g[0], g[0].Dim(-1))
		}
		return grads
	})
	drop(a, b)
	return out
}

// product allocates a matrix product; operands that BLAS cannot read are copied for its duration.
func (p *Process) product(name string, a, b *Tensor) *Tensor {
	sizes := slices.Clone(a.Sizes)
	sizes[len(sizes)-1] = b.Dim(-1)
	if a.Dim(-1) != b.Dim(-2) {
		panic(fault("matrices of shapes %v and %v do not fit", a.Sizes, b.Sizes))
	}
	out := p.emptyOf(a.DType, sizes...)
	ca, cb := p.blasReady(a), p.blasReady(b)
	p.useBlas()
	p.multiply(name, a.DType, alignment(a, b, out), out.Numel()/max(1, out.Dim(-1)*out.Dim(-2)), out.Dim(-2), out.Dim(-1), a.Dim(-1))
	drop(ca, cb)
	return out
}

// blasReady copies a matrix that has unit stride in neither of its last two dimensions.
func (p *Process) blasReady(t *Tensor) *Tensor {
	n := t.Rank()
	rows, cols := t.Strides[n-2], t.Strides[n-1]
	if cols == 1 && rows >= max(1, t.Sizes[n-1]) || rows == 1 && cols >= max(1, t.Sizes[n-2]) || t.Sizes[n-1] == 1 || t.Sizes[n-2] == 1 {
		return nil
	}
	p.observe("aten::clone", t.DType, 0, stored(t), t.Bytes())
	return p.emptyOf(t.DType, t.Sizes...)
}

// productLike makes the gradient of one operand (mm_mat1_backward, mm_mat2_backward): computed transposed and viewed back where the operand is column-major.
func (p *Process) productLike(t, g *Tensor, inner int) *Tensor {
	defer p.useBlas()
	n := t.Rank()
	copied := p.blasReady(g)
	defer drop(copied)
	p.multiplyGrad(t, g, inner)
	if t.Strides[n-2] == 1 && t.Strides[n-1] == t.Sizes[n-2] {
		base := p.emptyOf(g.DType, t.Layout.Transpose(-1, -2).Sizes...)
		return base.Transpose(-1, -2)
	}
	return p.emptyOf(g.DType, t.Sizes...)
}

// Matmul follows aten/src/ATen/native/LinearAlgebra.cpp: two matrices → mm; a matrix on the right → folded mm; else a
// batched product, whose operands are copied where their batch cannot be viewed as one dimension.
func Matmul(a, b *Tensor) *Tensor {
	p := a.p
	lb := p.lower(b)
	la := p.lower(a)
	defer drop(a, b)
	switch {
	case la.Rank() == 1 && lb.Rank() > 1:
		return p.withVector(lb.Transpose(-2, -1), la)
	case lb.Rank() == 1 && la.Rank() > 1:
		return p.withVector(la, lb)
	case la.Rank() == 2 && lb.Rank() == 2:
		return p.mm(la, lb)
	case lb.Rank() == 2:
		sizes := append(slices.Clone(la.Sizes[:la.Rank()-1]), lb.Dim(-1))
		return p.mm(la.Reshape(-1, la.Dim(-1)), lb).Reshape(sizes...)
	}
	batch := tensor.Broadcast(la.Sizes[:la.Rank()-2], lb.Sizes[:lb.Rank()-2])
	count := 1
	for _, s := range batch {
		count *= s
	}
	rows, inner, cols := la.Dim(-2), la.Dim(-1), lb.Dim(-1)
	fa := la.expandTo(append(slices.Clone(batch), rows, inner)).Reshape(count, rows, inner)
	fb := lb.expandTo(append(slices.Clone(batch), lb.Dim(-2), cols)).Reshape(count, lb.Dim(-2), cols)
	return Bmm(fa, fb).View(append(slices.Clone(batch), rows, cols)...)
}

// withVector is matmul with a vector, on either side: all else becomes the rows of one matrix, which is copied where its strides do not allow that
// (https://github.com/pytorch/pytorch/blob/v2.11.0/aten/src/ATen/native/LinearAlgebra.cpp, _matmul_impl: t1->reshape({-1, k}), t1_folded.mv(*t2)).
func (p *Process) withVector(t, vector *Tensor) *Tensor {
	inner := t.Dim(-1)
	sizes := slices.Clone(t.Sizes[:t.Rank()-1])
	return p.mm(t.Reshape(-1, inner), vector.View(inner, 1)).Reshape(sizes...)
}

func (t *Tensor) expandTo(sizes []int) *Tensor {
	if t.Same(sizes) {
		return t
	}
	return t.Expand(sizes...)
}

// Bmm multiplies batches of matrices.
func Bmm(a, b *Tensor) *Tensor {
	p := a.p
	lb := p.lower(b)
	la := p.lower(a)
	p.op = "aten::bmm"
	n := p.record("BmmBackward0", la, lb)
	n.saveIf(n.needs(0), lb)
	n.saveIf(n.needs(1), la)
	out := n.out(p.product("aten::bmm", la, lb))
	n.backward(func(g []*Tensor) []*Tensor {
		grads := make([]*Tensor, 2)
		if n.needs(1) {
			grads[1] = p.plainGrad(lb, g[0], g[0].Dim(-2))
		}
		if n.needs(0) {
			grads[0] = p.plainGrad(la, g[0], g[0].Dim(-1))
		}
		return grads
	})
	drop(la, lb, a, b)
	return out
}

// plainGrad is a gradient of bmm: always row-major.
func (p *Process) plainGrad(t, g *Tensor, inner int) *Tensor {
	copied := p.blasReady(g)
	defer drop(copied)
	out := p.emptyOf(g.DType, t.Sizes...)
	p.useBlas()
	p.multiplyGrad(t, g, inner)
	return out
}

// Addmm is torch.addmm: bias + a·b for matrices.
func Addmm(bias, a, b *Tensor) *Tensor {
	p := a.p
	lb := p.lower(b)
	la := p.lower(a)
	out := p.addmm(p.lower(bias), la, lb)
	drop(bias, a, b)
	return out
}
