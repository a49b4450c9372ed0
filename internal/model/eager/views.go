package eager

import (
	"slices"

	"github.com/plimsoll/plimsoll/internal/model/tensor"
)

// viewOp makes a view whose gradient is a view of the incoming one.
func (t *Tensor) viewOp(name string, l tensor.Layout, back func(g *Tensor) *Tensor) *Tensor {
	t.alive()
	if t.p.python() {
		t.p.hostWork(View)
	}
	n := t.p.record(name, t)
	out := n.out(t.alias(l))
	n.backward(func(g []*Tensor) []*Tensor {
		if g[0] == nil {
			return []*Tensor{nil}
		}
		return []*Tensor{back(g[0])}
	})
	drop(t)
	return out
}

// View gives the tensor other sizes without a copy; one may be -1.
func (t *Tensor) View(sizes ...int) *Tensor {
	l, ok := t.Layout.View(tensor.Infer(t.Numel(), sizes))
	if !ok {
		panic(fault("a tensor of shape %v and strides %v cannot be viewed as %v", t.Sizes, t.Strides, sizes))
	}
	from := t.Sizes
	return t.viewOp("ViewBackward0", l, func(g *Tensor) *Tensor { return g.Reshape(from...) })
}

// Reshape is a view where possible, else a copy.
func (t *Tensor) Reshape(sizes ...int) *Tensor {
	want := tensor.Infer(t.Numel(), sizes)
	l, ok := t.Layout.View(want)
	if !ok {
		return t.Contiguous().View(want...)
	}
	from := t.Sizes
	return t.viewOp("ViewBackward0", l, func(g *Tensor) *Tensor { return g.Reshape(from...) })
}

// Flatten merges the dimensions from first to last.
func (t *Tensor) Flatten(first, last int) *Tensor {
	first, last = t.Axis(first), t.Axis(last)
	if first >= last {
		return t
	}
	n := 1
	for _, s := range t.Sizes[first : last+1] {
		n *= s
	}
	sizes := slices.Concat(t.Sizes[:first], []int{n}, t.Sizes[last+1:])
	return t.Reshape(sizes...)
}

// Transpose swaps two dimensions.
func (t *Tensor) Transpose(a, b int) *Tensor {
	return t.viewOp("TransposeBackward0", t.Layout.Transpose(a, b), func(g *Tensor) *Tensor { return g.Transpose(a, b) })
}

// Permute reorders the dimensions.
func (t *Tensor) Permute(order ...int) *Tensor {
	back := make([]int, len(order))
	for i, d := range order {
		back[t.Axis(d)] = i
	}
	return t.viewOp("PermuteBackward0", t.Layout.Permute(order...), func(g *Tensor) *Tensor { return g.Permute(back...) })
}

// Unsqueeze inserts a dimension of size one.
func (t *Tensor) Unsqueeze(dim int) *Tensor {
	if dim < 0 {
		dim += t.Rank() + 1
	}
	return t.viewOp("UnsqueezeBackward0", t.Layout.Unsqueeze(dim), func(g *Tensor) *Tensor { return g.Squeeze(dim) })
}

// Squeeze removes a dimension of size one.
func (t *Tensor) Squeeze(dim int) *Tensor {
	dim = t.Axis(dim)
	if t.Sizes[dim] != 1 {
		return t
	}
	return t.viewOp("SqueezeBackward1", t.Layout.Squeeze(dim), func(g *Tensor) *Tensor { return g.Unsqueeze(dim) })
}

// Expand repeats dimensions of size one without memory; the gradient is summed over them.
func (t *Tensor) Expand(sizes ...int) *Tensor {
	from := t.Sizes
	return t.viewOp("ExpandBackward0", t.Layout.Expand(sizes), func(g *Tensor) *Tensor { return t.p.sumTo(g, from) })
}

// Slice keeps entries [from, to) of a dimension; its gradient is full size (slice_backward: zeros, then a copy).
func (t *Tensor) Slice(dim, from, to int) *Tensor { return t.SliceStep(dim, from, to, 1) }

// SliceStep is Slice with a step. Taking everything is an alias, whose gradient passes through (torch/csrc/autograd/
// python_variable_indexing.cpp skips such slices).
func (t *Tensor) SliceStep(dim, from, to, step int) *Tensor {
	dim = t.Axis(dim)
	size := t.Sizes[dim]
	from, to = clampIndex(from, size), clampIndex(to, size)
	if from == 0 && to == size && step == 1 {
		return t.viewOp("AliasBackward0", t.Layout, func(g *Tensor) *Tensor { return g })
	}
	length := max(ceilDiv(to-from, step), 0)
	layout := t.Layout
	return t.viewOp("SliceBackward0", t.Layout.Slice(dim, length, step), func(g *Tensor) *Tensor {
		return t.p.placed(g, layout)
	})
}

func clampIndex(i, size int) int {
	if i < 0 {
		i += size
	}
	return min(max(i, 0), size)
}

// Select takes one entry of a dimension away; the gradient is full size.
func (t *Tensor) Select(dim, index int) *Tensor {
	layout := t.Layout
	_ = index
	return t.viewOp("SelectBackward0", t.Layout.Select(dim), func(g *Tensor) *Tensor {
		return t.p.placed(g, layout)
	})
}

// AsStrided views the storage with sizes and strides of its own (windows that overlap, in attention over chunks). Backward makes zeros of the whole input; where
// places of the view overlap, two lists of indices say where each is added (as_strided_backward,
// https://github.com/pytorch/pytorch/blob/v2.11.0/torch/csrc/autograd/FunctionsManual.cpp#L2784).
func (t *Tensor) AsStrided(sizes, strides []int) *Tensor {
	p, layout := t.p, t.Layout
	view := tensor.Layout{Sizes: slices.Clone(sizes), Strides: slices.Clone(strides)}
	return t.viewOp("AsStridedBackward0", view, func(g *Tensor) *Tensor {
		if g.Numel() <= layout.Numel() {
			return p.placed(g, layout)
		}
		all := p.emptyOf(tensor.Int64, layout.Numel())
		out := p.zerosLike(layout, g.DType)
		at := p.emptyOf(tensor.Int64, g.Numel())
		drop(at, all)
		return out
	})
}

// placed is a gradient copied into zeros of the full size.
func (p *Process) placed(g *Tensor, full tensor.Layout) *Tensor {
	out := p.zerosLike(full, g.DType)
	p.observe("aten::copy_", g.DType, 0, stored(g), g.Bytes())
	return out
}

func (p *Process) zerosLike(l tensor.Layout, d tensor.DType) *Tensor {
	out := p.emptyOf(d, l.Sizes...)
	p.observe("aten::zeros", d, 0, 0, out.Bytes())
	return out
}

// Detach cuts the tensor off the graph; it shares the storage.
func (t *Tensor) Detach() *Tensor {
	out := t.alias(t.Layout)
	drop(t)
	return out
}

// Split cuts a dimension into pieces of the given lengths: views whose gradients meet in one concatenation.
func (t *Tensor) Split(dim int, lengths ...int) []*Tensor {
	t.alive()
	dim = t.Axis(dim)
	p, layout := t.p, t.Layout
	n := p.record("SplitBackward0", t)
	outs := make([]*Tensor, len(lengths))
	for i, l := range lengths {
		outs[i] = n.out(t.alias(t.Layout.Slice(dim, l, 1)))
	}
	n.backward(func(g []*Tensor) []*Tensor {
		d := firstDType(g)
		// Missing pieces become zeros before the concatenation (split_with_sizes_backward).
		var zeros []*Tensor
		for i, piece := range g {
			if piece == nil {
				zeros = append(zeros, p.zerosLike(layout.Slice(dim, lengths[i], 1), d))
			}
		}
		out := p.empty(tensor.Of(layout.Sizes...), d)
		p.observe("aten::cat", d, 0, out.Bytes(), out.Bytes())
		drop(zeros...)
		return []*Tensor{out}
	})
	drop(t)
	return outs
}

func firstDType(g []*Tensor) tensor.DType {
	for _, t := range g {
		if t != nil {
			return t.DType
		}
	}
	return tensor.Float32
}

// Chunk cuts a dimension into n equal views (the last may be shorter).
func (t *Tensor) Chunk(n, dim int) []*Tensor {
	size := t.Dim(dim)
	step := ceilDiv(size, n)
	var lengths []int
	for at := 0; at < size; at += step {
		lengths = append(lengths, min(step, size-at))
	}
	return t.Split(dim, lengths...)
}

// Unbind takes a dimension apart; the gradients meet in one stack.
func (t *Tensor) Unbind(dim int) []*Tensor {
	t.alive()
	dim = t.Axis(dim)
	p, layout := t.p, t.Layout
	n := p.record("UnbindBackward0", t)
	outs := make([]*Tensor, layout.Sizes[dim])
	for i := range outs {
		outs[i] = n.out(t.alias(t.Layout.Select(dim)))
	}
	n.backward(func(g []*Tensor) []*Tensor {
		d := firstDType(g)
		var zeros []*Tensor
		for _, piece := range g {
			if piece == nil {
				zeros = append(zeros, p.zerosLike(layout.Select(dim), d))
			}
		}
		out := p.empty(tensor.Of(layout.Sizes...), d)
		p.observe("aten::stack", d, 0, out.Bytes(), out.Bytes())
		drop(zeros...)
		return []*Tensor{out}
	})
	drop(t)
	return outs
}

// Cat joins tensors along a dimension; it saves nothing and its gradients are views of the incoming one.
func Cat(dim int, parts ...*Tensor) *Tensor {
	p := parts[0].p
	p.op = "aten::cat"
	given := parts
	parts = promoteAll(parts)
	dim = parts[0].Axis(dim)
	n := p.record("CatBackward0", parts...)
	sizes := slices.Clone(parts[0].Sizes)
	sizes[dim] = 0
	lengths := make([]int, len(parts))
	d := parts[0].DType
	for i, t := range parts {
		t.alive()
		lengths[i] = t.Sizes[dim]
		sizes[dim] += lengths[i]
		d = tensor.Promote(d, t.DType)
	}
	out := n.out(p.empty(catLayout(parts[0], sizes), d))
	p.observe("aten::cat", d, 0, out.Bytes(), out.Bytes())
	n.backward(func(g []*Tensor) []*Tensor {
		back := make([]*Tensor, len(lengths))
		for i, l := range lengths {
			if n.needs(i) {
				back[i] = g[0].alias(g[0].Layout.Slice(dim, l, 1))
			}
		}
		return back
	})
	drop(parts...)
	drop(given...)
	return out
}

func catLayout(first *Tensor, sizes []int) tensor.Layout {
	if !first.IsContiguous() && first.IsChannelsLast() {
		return tensor.ChannelsLast(sizes...)
	}
	return tensor.Of(sizes...)
}

// promoteAll casts to the widest type where autocast is on (cat and stack are on its promote list).
func promoteAll(parts []*Tensor) []*Tensor {
	p := parts[0].p
	if _, on := p.Autocasting(); !on {
		return parts
	}
	wide := parts[0].DType
	for _, t := range parts[1:] {
		wide = tensor.Promote(wide, t.DType)
	}
	out := slices.Clone(parts)
	for i, t := range parts {
		if t.DType != wide && t.DType.Floating() {
			out[i] = t.To(wide)
		}
	}
	return out
}

// Stack joins tensors along a new dimension.
func Stack(dim int, parts ...*Tensor) *Tensor {
	views := make([]*Tensor, len(parts))
	for i, t := range parts {
		views[i] = t.Unsqueeze(dim)
	}
	return Cat(dim, views...)
}
