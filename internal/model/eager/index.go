package eager

import (
	"slices"

	"github.com/plimsoll/plimsoll/internal/model/tensor"
)

// Index is advanced indexing with one index tensor on a dimension (t[index] for 0). It saves the index; the gradient is
// zeros of the full size that the incoming one is added to (index_backward).
func (t *Tensor) Index(dim int, index *Tensor) *Tensor {
	dim = t.Axis(dim)
	sizes := slices.Concat(t.Sizes[:dim], index.Sizes, t.Sizes[dim+1:])
	return t.pick("aten::index", "IndexBackward0", index, false, sizes)
}

// IndexSelect is torch.index_select.
func (t *Tensor) IndexSelect(dim int, index *Tensor) *Tensor {
	dim = t.Axis(dim)
	sizes := slices.Concat(t.Sizes[:dim], index.Sizes, t.Sizes[dim+1:])
	return t.pick("aten::index_select", "IndexSelectBackward0", index, false, sizes)
}

// Gather takes entries along a dimension; it saves the index and the tensor itself (gather_backward names self).
func (t *Tensor) Gather(index *Tensor) *Tensor {
	return t.pick("aten::gather", "GatherBackward0", index, true, index.Sizes)
}

func (t *Tensor) pick(name, node string, index *Tensor, self bool, sizes []int) *Tensor {
	t.alive()
	p := t.p
	p.op = name
	n := p.record(node, t)
	n.save(index)
	n.saveIf(self, t)
	out := n.out(p.emptyOf(t.DType, sizes...))
	layout := t.Layout
	p.observe(name, t.DType, 0, out.Bytes(), out.Bytes())
	n.backward(func(g []*Tensor) []*Tensor { return []*Tensor{p.placed(g[0], layout)} })
	drop(t, index)
	return out
}

// IndexAdd adds rows of src to a copy of t; its gradient for src is an index_select.
func (t *Tensor) IndexAdd(index, src *Tensor) *Tensor {
	t.alive()
	p := t.p
	p.op = "aten::index_add"
	n := p.record("IndexAddBackward0", t, src)
	n.save(index)
	out := n.out(p.empty(t.Like(), t.DType))
	p.observe(p.op, t.DType, 0, t.Bytes()+2*src.Bytes(), t.Bytes()+src.Bytes())
	from := src.Sizes
	n.backward(func(g []*Tensor) []*Tensor {
		grads := passBoth(n, g[0])
		if grads[1] != nil {
			grads[1] = p.emptyOf(g[0].DType, from...)
		}
		return grads
	})
	drop(t, index, src)
	return out
}

// Repeat tiles a tensor; the gradient is summed over the repetitions.
func (t *Tensor) Repeat(times ...int) *Tensor {
	t.alive()
	p := t.p
	p.op = "aten::repeat"
	n := p.record("RepeatBackward0", t)
	shift := len(times) - t.Rank()
	sizes := slices.Clone(times)
	for i, s := range t.Sizes {
		sizes[i+shift] *= s
	}
	out := n.out(p.emptyOf(t.DType, sizes...))
	from := t.Sizes
	p.observe(p.op, t.DType, 0, t.Bytes(), out.Bytes())
	n.backward(func(g []*Tensor) []*Tensor {
		var split, dims []int
		for i, r := range times {
			size := 1
			if i >= shift {
				size = from[i-shift]
			}
			dims = append(dims, len(split))
			split = append(split, r, size)
		}
		parts := g[0].alias(tensor.Of(split...))
		sum := p.reduceDims(parts, dims, g[0].DType)
		sum.Layout = tensor.Of(from...)
		drop(parts)
		return []*Tensor{sum}
	})
	drop(t)
	return out
}

// TopK gives values and indices; it saves the indices, and its gradient is full size.
func (t *Tensor) TopK(k, dim int) (values, indices *Tensor) {
	sizes := slices.Clone(t.Sizes)
	sizes[t.Axis(dim)] = k
	return t.ordered("aten::topk", sizes)
}

// Extreme gives the largest or smallest values over a dimension, and where they are; only that is kept (value_selecting_reduction_backward).
func (t *Tensor) Extreme(sizes ...int) (values, indices *Tensor) {
	return t.ordered("aten::max", sizes)
}

// AssignInPlace writes o over a part of t (t[...] = o): no memory of its own. The gradient of t is copied whole, that of o is a copy of its part
// (https://github.com/pytorch/pytorch/blob/v2.11.0/torch/csrc/autograd/functions/tensor.cpp, CopySlices::apply).
func (t *Tensor) AssignInPlace(o *Tensor) *Tensor {
	t.alive()
	p := t.p
	p.op = "aten::copy_"
	n := p.record("CopySlices", t, o)
	p.observe(p.op, t.DType, 0, o.Bytes(), o.Bytes())
	whole, part, narrow := t.Layout, o.Layout, o.DType
	n.backward(func(g []*Tensor) []*Tensor {
		out := make([]*Tensor, 2)
		if n.needs(0) {
			out[0] = p.empty(whole.Like(), g[0].DType)
		}
		if n.needs(1) {
			out[1] = p.empty(part.Like(), narrow)
		}
		return out
	})
	t.rebase(n)
	if o != t {
		drop(o)
	}
	return t
}

// ViewOf gives a view the history of the tensor that was written into since it was made: autograd makes its node anew, as one of as_strided
// (https://github.com/pytorch/pytorch/blob/v2.11.0/torch/csrc/autograd/variable.cpp, VariableHooks::grad_fn), whose gradient has all of the tensor.
func (t *Tensor) ViewOf(whole *Tensor) {
	t.alive()
	p := t.p
	n := p.record("AsStridedBackward0", whole)
	full := whole.Layout
	n.backward(func(g []*Tensor) []*Tensor { return []*Tensor{p.zerosLike(full, g[0].DType)} })
	t.rebase(n)
}

// Sort gives sorted values and indices.
func (t *Tensor) Sort() (values, indices *Tensor) { return t.ordered("aten::sort", t.Sizes) }

func (t *Tensor) ordered(name string, sizes []int) (values, indices *Tensor) {
	t.alive()
	p := t.p
	p.op = name
	n := p.record(name+"Backward0", t)
	p.observe(name, t.DType, 0, 2*t.Bytes(), t.Bytes())
	values = p.emptyOf(t.DType, sizes...)
	indices = p.emptyOf(tensor.Int64, sizes...)
	n.save(indices)
	n.out(values)
	layout := t.Layout
	n.backward(func(g []*Tensor) []*Tensor { return []*Tensor{p.zerosLike(layout, g[0].DType)} })
	drop(t)
	return values, indices
}

// Rows is t[mask] of a mask over all dimensions but the last, all of which is true: nonzero lists every place, the rows are copied, and the list is saved.
func (t *Tensor) Rows() *Tensor {
	n := t.Numel() / t.Dim(-1)
	list := t.p.emptyOf(tensor.Int64, n, t.Rank()-1)
	return t.pick("aten::index", "IndexBackward0", list, false, []int{n, t.Dim(-1)})
}
