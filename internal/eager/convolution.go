package eager

import (
	"slices"

	"github.com/plimsoll/plimsoll/internal/tensor"
	"github.com/plimsoll/plimsoll/internal/units"
)

// Convolution holds the arguments of a convolution beside input, weight and bias. Lists have one entry for each
// spatial dimension; a single entry counts for all.
type Convolution struct {
	Stride, Padding, Dilation []int
	Groups                    int
	Transposed                bool
	OutputPadding             []int
}

// Conv is F.conv1d, conv2d, conv3d and their transposed forms through cuDNN. It saves input and weight as passed; copies into the
// kernel's memory format live only while it runs (aten/src/ATen/native/Convolution.cpp, 2.11). The bias is added in place.
func Conv(x, w, b *Tensor, a Convolution) *Tensor {
	p := x.p
	bias := p.lower(b)
	weight := p.lower(w)
	in := p.lower(x)
	p.op = "aten::convolution"
	n := p.record("ConvolutionBackward0", in, weight, bias)
	n.save(in, weight)
	k := newConvKernel(in, weight, a)
	out := p.runConv(k, in, weight)
	n.out(out)
	n.backward(func(g []*Tensor) []*Tensor { return p.convGrads(n, k, g[0], in, weight, bias) })
	drop(bias, b, weight, w, in, x)
	return out
}

// runConv is the forward kernel: input and weight in its memory format, the result, the workspace.
func (p *Process) runConv(k convKernel, in, weight *Tensor) *Tensor {
	ci := p.formatted(in, k.last)
	out := p.empty(k.layout(k.out), in.DType)
	cw := p.formatted(weight, k.last)
	p.scratch(k.forwardSpace())
	p.observe(p.op, in.DType, k.flops(), in.Bytes()+weight.Bytes(), out.Bytes())
	drop(ci, cw)
	return out
}

// formatted copies a tensor into the kernel's memory format; nil where it has it already.
func (p *Process) formatted(t *Tensor, last bool) *Tensor {
	want := tensor.Of(t.Sizes...)
	if last {
		want = tensor.ChannelsLast(t.Sizes...)
	}
	if last && t.IsChannelsLast() || !last && t.IsContiguous() {
		return nil
	}
	return p.empty(want, t.DType)
}

// convGrads is convolution_backward: the input's gradient, the weight's, then the bias's as a sum.
func (p *Process) convGrads(n *Node, k convKernel, g, in, weight, bias *Tensor) []*Tensor {
	grads := make([]*Tensor, 3)
	var ci *Tensor
	if n.needs(1) {
		ci = p.formatted(in, k.last)
	}
	cg := p.formatted(g, k.last)
	if n.needs(0) {
		cw := p.formatted(weight, k.last)
		grads[0] = p.empty(k.layout(in.Sizes), in.DType)
		p.scratch(k.inputGradSpace())
		p.observe("ConvolutionBackward0", in.DType, k.flops(), g.Bytes()+weight.Bytes(), in.Bytes())
		drop(cw)
	}
	if n.needs(1) {
		grads[1] = p.empty(k.weightLayout(weight), weight.DType)
		p.scratch(k.weightGradSpace(p.Device.SMs))
		p.observe("ConvolutionBackward0", in.DType, k.flops(), g.Bytes()+in.Bytes(), weight.Bytes())
	}
	drop(ci, cg)
	if bias != nil && n.needs(2) {
		dims := []int{0}
		for i := 2; i < g.Rank(); i++ {
			dims = append(dims, i)
		}
		sum := p.reduceDims(g, dims, g.DType)
		sum.Layout = tensor.Of(bias.Sizes...)
		grads[2] = sum
	}
	return grads
}

// convKernel is what decides a convolution's workspace.
type convKernel struct {
	Convolution
	in, out, weight []int
	width           units.Bytes // of an element
	last            bool        // the kernel works in channels_last
	taps            int         // product of the kernel's sides
	strided         bool
	dilated         bool
}

func newConvKernel(in, weight *Tensor, a Convolution) convKernel {
	spatial := in.Rank() - 2
	k := convKernel{Convolution: a, in: in.Sizes, weight: weight.Sizes, width: in.DType.Width(), taps: 1}
	if k.Groups == 0 {
		k.Groups = 1
	}
	if spatial < 1 || weight.Rank() != in.Rank() {
		panic(fault("convolution of %v with a weight of %v", in.Sizes, weight.Sizes))
	}
	channels := weight.Sizes[0]
	if a.Transposed {
		channels = weight.Sizes[1] * k.Groups
	}
	k.out = []int{in.Sizes[0], channels}
	for i := range spatial {
		side, stride, pad, dil := weight.Sizes[i+2], at(a.Stride, i, 1), at(a.Padding, i, 0), at(a.Dilation, i, 1)
		reach := dil*(side-1) + 1
		size := (in.Sizes[i+2]+2*pad-reach)/max(stride, 1) + 1
		if a.Transposed {
			size = (in.Sizes[i+2]-1)*stride - 2*pad + reach + at(a.OutputPadding, i, 0)
		}
		if size <= 0 {
			panic(fault("convolution of %v with a weight of %v leaves nothing", in.Sizes, weight.Sizes))
		}
		k.out = append(k.out, size)
		k.taps *= side
		k.strided = k.strided || stride > 1
		k.dilated = k.dilated || dil > 1
	}
	// cudnn_conv_suggest_memory_format: channels_last where either operand is.
	k.last = spatial > 1 && (suggestsLast(in) || suggestsLast(weight))
	return k
}

// suggestsLast is Tensor::suggest_memory_format() == ChannelsLast: strides that can be read both ways count as contiguous.
func suggestsLast(t *Tensor) bool { return t.IsChannelsLast() && !t.IsContiguous() }

func at(list []int, i, standard int) int {
	switch {
	case len(list) == 0:
		return standard
	case i < len(list):
		return list[i]
	}
	return list[0]
}

func (k convKernel) layout(sizes []int) tensor.Layout {
	if k.last {
		return tensor.ChannelsLast(sizes...)
	}
	return tensor.Of(sizes...)
}

func (k convKernel) weightLayout(w *Tensor) tensor.Layout {
	if k.last {
		return tensor.ChannelsLast(w.Sizes...)
	}
	return tensor.Of(w.Sizes...)
}

func (k convKernel) depthwise() bool {
	return k.Groups > 1 && k.Groups == k.in[1] && k.weight[1] == 1
}

func (k convKernel) flops() float64 {
	out := 2 * float64(product(k.weight))
	for i, s := range k.out {
		if i != 1 {
			out *= float64(s)
		}
	}
	if k.Transposed {
		out = 2 * float64(product(k.weight)) * float64(product(k.in)/max(k.in[1], 1))
	}
	return out
}

func product(sizes []int) int {
	n := 1
	for _, s := range sizes {
		n *= s
	}
	return n
}

// Workspaces, measured with cuDNN 9.19 on an H200 for single convolutions. In NCHW, kernels larger than 1×1 work on channels-last
// copies of everything they read and write, in the compute type; 16-bit copies pad the input channels to a multiple of
// eight, fp32 weight gradients to four. Native depthwise kernels and 1×1 without stride need nothing.

// padded is the size of a tensor of the input's shape (or the weight's) with its channels padded.
func (k convKernel) padded(sizes []int, axis, to int) units.Bytes {
	sizes = slices.Clone(sizes)
	sizes[axis] = roundUp(sizes[axis], to)
	return units.Bytes(product(sizes)) * k.width
}

func (k convKernel) channelPad(weightGrad bool) int {
	switch {
	case k.Groups > 1:
		return 1
	case k.width == 2:
		return 8
	case weightGrad:
		return 4
	}
	return 1
}

// small is a 3×3 without stride on at most four channels, which has a direct kernel in forward and in fp32 backward.
func (k convKernel) small() bool { return k.in[1] <= 4 && k.taps == 9 && !k.strided && !k.dilated }

// patch is a kernel that tiles its input (stride equal to its side).
func (k convKernel) patch() bool {
	for i := range k.weight[2:] {
		if at(k.Stride, i, 1) != k.weight[i+2] {
			return false
		}
	}
	return k.taps > 1
}

func (k convKernel) forwardSpace() units.Bytes {
	rgb := k.in[1] <= 4
	pad := k.channelPad(false)
	x, w, y := k.padded(k.in, 1, pad), k.padded(k.weight, 1, pad), units.Bytes(product(k.out))*k.width
	switch {
	case k.depthwise(), k.taps == 1:
		return 0
	case k.last && rgb: // the padded input
		return x
	case k.last, k.small():
		return 0
	case k.width == 4 && k.patch() && k.taps >= 64:
		return 0
	case k.width == 4 && len(k.in) == 5:
		return x + w
	}
	return x + y + w
}

func (k convKernel) inputGradSpace() units.Bytes {
	pad := k.channelPad(false)
	dx, w, dy := k.padded(k.in, 1, pad), k.padded(k.weight, 1, pad), units.Bytes(product(k.out))*k.width
	switch {
	case k.depthwise(), k.taps == 1 && !k.strided:
		return 0
	case k.last && k.width == 4 && (k.dilated || k.Groups > 1):
		return dx + dy
	case k.last && k.in[1] <= 4:
		return dx
	case k.last, k.small() && k.width == 4:
		return 0
	}
	return dx + dy + w
}

func (k convKernel) weightGradSpace(sms int) units.Bytes {
	pad := k.channelPad(true)
	x, w, dy := k.padded(k.in, 1, pad), k.padded(k.weight, 1, pad), units.Bytes(product(k.out))*k.width
	switch {
	case k.depthwise(), k.taps == 1 && !k.strided:
		return 0
	case k.last && k.width == 4 && (k.dilated || k.Groups > 1):
		return x + dy
	case k.last && k.in[1] <= 4 && k.width == 4:
		return x + dy
	case k.last && k.in[1] <= 4:
		return x + k.splits(sms)
	case k.last:
		return k.splits(sms)
	case k.small() && k.width == 4:
		return 0
	}
	return x + dy + w + k.splits(sms)
}

// splits is the room for partial sums where a weight gradient's long dimension is shared by several thread blocks: one fp32
// copy of the weight for each split, as many as leave every multiprocessor one 128×128 tile.
func (k convKernel) splits(sms int) units.Bytes {
	tiles := ceilDiv(k.weight[0], 128) * ceilDiv(k.weight[1]*k.taps, 128)
	s := sms / max(tiles, 1)
	if k.width == 2 {
		s--
	}
	if s < 2 {
		return 0
	}
	return units.Bytes(s) * units.Bytes(product(k.weight)) * 4
}
