package eager

import (
	"slices"

	"github.com/plimsoll/plimsoll/internal/tensor"
)

// MaxPool saves its input and the int64 index of every result (max_pool2d_with_indices).
func (t *Tensor) MaxPool(out []int) *Tensor {
	p := t.p
	p.op = "aten::max_pool2d_with_indices"
	n := p.record("MaxPool2DWithIndicesBackward0", t)
	n.save(t)
	l := poolLayout(t, out)
	res := p.empty(l, t.DType)
	indices := p.empty(l, tensor.Int64)
	n.save(indices)
	n.out(res)
	p.observe(p.op, t.DType, float64(t.Numel()), t.Bytes(), res.Bytes()+indices.Bytes())
	p.poolBack(n, t)
	drop(indices, t)
	return res
}

// AvgPool saves its input.
func (t *Tensor) AvgPool(out []int) *Tensor {
	p := t.p
	p.op = "aten::avg_pool2d"
	n := p.record("AvgPool2DBackward0", t)
	n.save(t)
	res := n.out(p.empty(poolLayout(t, out), t.DType))
	p.observe(p.op, t.DType, float64(t.Numel()), t.Bytes(), res.Bytes())
	p.poolBack(n, t)
	drop(t)
	return res
}

// AdaptiveAvgPool to one element a channel is a mean, which saves nothing; other sizes save the input.
// out holds the spatial sizes of the result.
func (t *Tensor) AdaptiveAvgPool(out ...int) *Tensor {
	if !slices.ContainsFunc(out, func(n int) bool { return n != 1 }) {
		dims := make([]int, len(out))
		for i := range dims {
			dims[i] = t.Rank() - len(out) + i
		}
		res := t.Mean(true, dims...)
		if suggestsLast(t) {
			res.Layout = tensor.ChannelsLast(res.Sizes...)
		}
		return res
	}
	p := t.p
	p.op = "aten::_adaptive_avg_pool2d"
	n := p.record("AdaptiveAvgPool2DBackward0", t)
	n.save(t)
	sizes := append(slices.Clone(t.Sizes[:t.Rank()-len(out)]), out...)
	res := n.out(p.empty(poolLayout(t, sizes), t.DType))
	p.poolBack(n, t)
	drop(t)
	return res
}

func poolLayout(t *Tensor, sizes []int) tensor.Layout {
	if suggestsLast(t) {
		return tensor.ChannelsLast(sizes...)
	}
	return tensor.Of(sizes...)
}

// poolBack writes a full-size gradient in the input's memory format.
func (p *Process) poolBack(n *Node, in *Tensor) {
	n.backward(func(g []*Tensor) []*Tensor {
		var copied *Tensor
		if !sameFormat(g[0], in) {
			copied = p.empty(poolLayout(in, g[0].Sizes), g[0].DType)
		}
		out := p.empty(poolLayout(in, in.Sizes), in.DType)
		p.observe(n.name, in.DType, float64(in.Numel()), g[0].Bytes(), out.Bytes())
		drop(copied)
		return []*Tensor{out}
	})
}

// Upsample is F.interpolate to the given shape (bilinear, bicubic, nearest): it saves nothing; on autocast's fp32 list.
func (t *Tensor) Upsample(sizes []int) *Tensor {
	p := t.p
	in := p.raise(t)
	p.op = "aten::upsample"
	n := p.record("UpsampleBackward0", in)
	out := n.out(p.empty(poolLayout(in, sizes), in.DType))
	p.observe(p.op, in.DType, 8*float64(out.Numel()), in.Bytes(), out.Bytes())
	n.backward(func(g []*Tensor) []*Tensor {
		return []*Tensor{p.empty(poolLayout(in, in.Sizes), in.DType)}
	})
	drop(in, t)
	return out
}
