package eager

import (
	"slices"

	"github.com/plimsoll/plimsoll/internal/model/tensor"
	"github.com/plimsoll/plimsoll/internal/units"
)

// Conv holds the arguments of a convolution beside its tensors.
type Conv struct {
	Window     // Kernel is read from the weight
	Groups     int
	Transposed bool
	OutPadding []int
}

// Convolution is F.convNd and F.conv_transposeNd. convolution_backward is a formula of several outputs: it saves the input as passed
// and the weight whatever needs a gradient. On autocast's low precision list.
func Convolution(x, w, b *Tensor, c Conv) *Tensor {
	p := x.p
	bias, weight, in := p.lower(b), p.lower(w), p.lower(x)
	c.Groups = max(c.Groups, 1)
	c.Kernel = weight.Sizes[2:]
	p.op = "aten::convolution"
	n := p.record("ConvolutionBackward0", in, weight, bias)
	n.save(in, weight)
	last := channelsLastConv(in, weight)
	xc, wc := p.inFormat(in, last), p.inFormat(weight, last)
	sizes := c.outSizes(in, weight)
	layout := tensor.Of(sizes...)
	if last {
		layout = tensor.ChannelsLast(sizes...)
	}
	out := p.empty(layout, in.DType)
	shape := convShape{x: in, w: weight, y: out, c: c, last: last, sms: p.Device.SMs}
	p.scratch(shape.forward())
	drop(xc, wc)
	flops := shape.flops()
	if p.Observe != nil {
		w := shape.work(p.op, flops, in.Bytes()+weight.Bytes(), out.Bytes(), shape.forward())
		w.Conv = &ConvWork{Taps: shape.taps(), Groups: c.Groups, Channels: in.Dim(1), Rank: in.Rank(), ChannelsLast: last}
		p.work(w)
	}
	n.out(out)
	n.backward(func(g []*Tensor) []*Tensor { return p.convGrads(n, g[0], shape, bias, flops) })
	drop(bias, b, weight, w, in, x)
	return out
}

// convGrads is convolution_backward: gradient of the input, of the weight, of the bias, each with its own workspace.
func (p *Process) convGrads(n *Node, g *Tensor, s convShape, bias *Tensor, flops float64) []*Tensor {
	grads := make([]*Tensor, 3)
	gc := p.inFormat(g, s.last)
	xc, wc := p.inFormat(s.x, s.last), p.inFormat(s.w, s.last)
	format := func(sizes []int) tensor.Layout {
		if s.last {
			return tensor.ChannelsLast(sizes...)
		}
		return tensor.Of(sizes...)
	}
	if n.needs(0) {
		grads[0] = p.empty(format(s.x.Sizes), s.x.DType)
		p.scratch(s.inputGrad())
		w := s.work("aten::convolution_backward.input", flops, g.Bytes()+s.w.Bytes(), s.x.Bytes(), s.inputGrad())
		w.Shape[0] = s.x.Dim(1) / s.c.Groups
		p.work(w)
	}
	if n.needs(1) {
		grads[1] = p.empty(format(s.w.Sizes), s.w.DType)
		p.scratch(s.weightGrad())
		w := s.work("aten::convolution_backward.weight", flops, g.Bytes()+s.x.Bytes(), s.w.Bytes(), s.weightGrad())
		w.Shape[0] = min(w.Shape[0], s.x.Dim(1)/s.c.Groups*s.taps())
		p.work(w)
	}
	if bias != nil && n.needs(2) {
		dims := []int{0}
		for i := 2; i < g.Rank(); i++ {
			dims = append(dims, i)
		}
		full := g
		if gc != nil {
			full = gc
		}
		sum := p.reduceDims(full, dims, g.DType)
		sum.Layout = tensor.Of(bias.Sizes...)
		grads[2] = sum
	}
	drop(gc, xc, wc)
	return grads
}

// work is a convolution's. In NCHW its workspace holds copies in channels_last, made before and undone after the kernel.
func (s convShape) work(op string, flops float64, read, written, workspace units.Bytes) Work {
	w := Work{
		Op: op, Kind: Convolved, DType: s.x.DType, Result: s.x.DType, FLOPs: flops, Read: read, Written: written, Kernels: 1,
		Shape: [4]int{s.y.Dim(1) / s.c.Groups, s.x.Dim(1), s.x.Numel()},
	}
	if !s.last && workspace > 0 {
		w.Layout, w.Kernels = workspace, 3
	}
	if s.depthwise() && !s.last {
		w.Taps = s.taps()
	}
	return w
}

// channelsLastConv is cudnn_conv_suggest_memory_format: either operand decides (aten/src/ATen/native/ConvUtils.h).
func channelsLastConv(x, w *Tensor) bool {
	prefers := func(t *Tensor) bool { return !t.IsContiguous() && t.IsChannelsLast() }
	return prefers(x) || prefers(w)
}

// inFormat copies a tensor that is not in the memory format the kernel wants; nil where it is.
func (p *Process) inFormat(t *Tensor, last bool) *Tensor {
	if last && t.Rank() > 3 {
		if t.IsChannelsLast() {
			return nil
		}
		return p.empty(tensor.ChannelsLast(t.Sizes...), t.DType)
	}
	if t.IsContiguous() {
		return nil
	}
	return p.emptyOf(t.DType, t.Sizes...)
}

func (c Conv) outSizes(x, w *Tensor) []int {
	sizes := slices.Clone(x.Sizes)
	sizes[1] = w.Dim(0)
	if c.Transposed {
		sizes[1] = w.Dim(1) * c.Groups
	}
	for i := range sizes[2:] {
		if !c.Transposed {
			stride := pickDim(c.Stride, i, 1)
			window := Window{Kernel: c.Kernel[i : i+1], Stride: []int{stride}, Padding: []int{pickDim(c.Padding, i, 0)}, Dilation: []int{pickDim(c.Dilation, i, 1)}}
			sizes[i+2] = window.out(0, sizes[i+2])
			continue
		}
		sizes[i+2] = (sizes[i+2]-1)*pickDim(c.Stride, i, 1) - 2*pickDim(c.Padding, i, 0) +
			pickDim(c.Dilation, i, 1)*(c.Kernel[i]-1) + pickDim(c.OutPadding, i, 0) + 1
	}
	return sizes
}

// convShape is one convolution with everything its workspace depends on.
type convShape struct {
	x, w, y *Tensor
	c       Conv
	last    bool // channels_last
	sms     int
}

func (s convShape) flops() float64 {
	per := 2 * float64(s.w.Numel()) / float64(max(1, s.w.Dim(0)))
	if s.c.Transposed {
		return per * float64(s.x.Numel())
	}
	return per * float64(s.y.Numel())
}

func (s convShape) taps() int {
	n := 1
	for _, k := range s.c.Kernel {
		n *= k
	}
	return n
}

func (s convShape) strided() bool {
	return slices.ContainsFunc(s.c.Stride, func(v int) bool { return v != 1 })
}

func (s convShape) dilated() bool {
	return slices.ContainsFunc(s.c.Dilation, func(v int) bool { return v != 1 })
}

// depthwise convolutions run in PyTorch's own kernels, without a workspace.
func (s convShape) depthwise() bool {
	return s.c.Groups > 1 && s.c.Groups == s.x.Dim(1) && !s.c.Transposed && s.x.Rank() == 4
}

// patch convolutions cut the image into tiles: kernel and stride agree.
func (s convShape) patch() bool {
	if s.taps() == 1 {
		return false
	}
	for i, k := range s.c.Kernel {
		if pickDim(s.c.Stride, i, 1) != k {
			return false
		}
	}
	return true
}

// thin is a 3×3 of stride one on at most four channels, which has a kernel of its own.
func (s convShape) thin() bool { return s.x.Dim(1) <= 4 && s.taps() == 9 && !s.strided() }

// padded is the size of a tensor with its input channels rounded up.
func padded(t *Tensor, axis, to int) units.Bytes {
	channels := t.Dim(axis)
	return t.Bytes() / units.Bytes(max(channels, 1)) * units.Bytes(roundUp(channels, to))
}
