package eager

import (
	"slices"

	"github.com/plimsoll/plimsoll/internal/model/tensor"
)

// Window is the geometry of a pooling or a convolution: one entry per spatial dimension (a single one counts for all).
type Window struct {
	Kernel, Stride, Padding, Dilation []int
	CeilMode                          bool
}

func pickDim(values []int, i, fallback int) int {
	switch len(values) {
	case 0:
		return fallback
	case 1:
		return values[0]
	}
	return values[i]
}

func (w Window) out(i, size int) int {
	kernel := pickDim(w.Kernel, i, 1)
	stride := pickDim(w.Stride, i, kernel)
	padding, dilation := pickDim(w.Padding, i, 0), pickDim(w.Dilation, i, 1)
	span := size + 2*padding - dilation*(kernel-1) - 1
	if !w.CeilMode {
		return span/stride + 1
	}
	n := ceilDiv(span, stride) + 1
	if (n-1)*stride >= size+padding {
		n--
	}
	return n
}

// formatLike lays sizes out as channels_last where the source is, else row-major.
func formatLike(l tensor.Layout, sizes []int) tensor.Layout {
	if !l.IsContiguous() && l.IsChannelsLast() {
		return tensor.ChannelsLast(sizes...)
	}
	return tensor.Of(sizes...)
}

// MaxPool saves its input and int64 indices; [batch, channels, spatial...].
func (t *Tensor) MaxPool(w Window) *Tensor {
	t.alive()
	p := t.p
	p.op = "aten::max_pool2d_with_indices"
	n := p.record("MaxPool2DWithIndicesBackward0", t)
	n.save(t)
	sizes := slices.Clone(t.Sizes)
	for i := range sizes[2:] {
		sizes[i+2] = w.out(i, sizes[i+2])
	}
	l := formatLike(t.Layout, sizes)
	out := p.empty(l, t.DType)
	indices := p.empty(l, tensor.Int64)
	n.save(indices)
	n.out(out)
	p.observe(p.op, t.DType, float64(t.Numel()), t.Bytes(), out.Bytes())
	p.poolGrad(n, t)
	drop(indices, t)
	return out
}

func (p *Process) poolGrad(n *Node, t *Tensor) {
	l := formatLike(t.Layout, t.Sizes)
	n.backward(func(g []*Tensor) []*Tensor {
		out := p.empty(l, g[0].DType)
		p.observe(n.name, g[0].DType, float64(out.Numel()), g[0].Bytes(), out.Bytes())
		return []*Tensor{out}
	})
}

// AvgPool saves its input.
func (t *Tensor) AvgPool(w Window) *Tensor {
	sizes := slices.Clone(t.Sizes)
	for i := range sizes[2:] {
		sizes[i+2] = w.out(i, sizes[i+2])
	}
	return t.resample("aten::avg_pool2d", "AvgPool2DBackward0", true, sizes)
}

// AdaptiveAvgPool averages to given spatial sizes; to ones it is a mean, which saves nothing.
func (t *Tensor) AdaptiveAvgPool(spatial ...int) *Tensor {
	if !slices.ContainsFunc(spatial, func(s int) bool { return s != 1 }) {
		var dims []int
		for i := range spatial {
			dims = append(dims, t.Rank()-len(spatial)+i)
		}
		return t.Mean(true, dims...)
	}
	sizes := slices.Concat(t.Sizes[:t.Rank()-len(spatial)], spatial)
	return t.resample("aten::_adaptive_avg_pool2d", "AdaptiveAvgPool2DBackward0", true, sizes)
}

// Upsample interpolates to given spatial sizes and saves nothing; on autocast's fp32 list.
func (t *Tensor) Upsample(spatial ...int) *Tensor {
	in := t.p.raise(t)
	sizes := slices.Concat(in.Sizes[:2], spatial)
	return in.resample("aten::upsample", "UpsampleBackward0", false, sizes)
}

func (t *Tensor) resample(name, node string, keep bool, sizes []int) *Tensor {
	t.alive()
	p := t.p
	p.op = name
	n := p.record(node, t)
	n.saveIf(keep, t)
	out := n.out(p.empty(formatLike(t.Layout, sizes), t.DType))
	p.observe(name, t.DType, float64(out.Numel()), t.Bytes(), out.Bytes())
	p.poolGrad(n, t)
	drop(t)
	return out
}

// PixelShuffle moves channels into space: a permuted view made whole (aten/src/ATen/native/PixelShuffle.cpp).
func (t *Tensor) PixelShuffle(factor int) *Tensor {
	n, c, h, w := t.Dim(0), t.Dim(1)/(factor*factor), t.Dim(2), t.Dim(3)
	return t.Reshape(n, c, factor, factor, h, w).Permute(0, 1, 4, 2, 5, 3).Reshape(n, c, h*factor, w*factor)
}
