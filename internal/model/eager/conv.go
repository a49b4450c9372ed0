package eager

import (
	"slices"

	"github.com/plimsoll/plimsoll/internal/model/cudnn"
	"github.com/plimsoll/plimsoll/internal/model/tensor"
	"github.com/plimsoll/plimsoll/internal/units"
)

// Conv holds the arguments of a convolution beside its tensors.
type Conv struct {
	Window     // Kernel is read from the weight
	Groups     int
	Transposed bool
	OutPadding []int
	Plain      bool // cuDNN is switched off (torch.backends.cudnn.flags(enabled=False)): PyTorch's own kernels run
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
	shape := convShape{x: in, w: weight, y: out, c: c, last: last, table: p.Device.workspaces(), benchmark: p.Benchmark, plans: p.Plans}
	need := shape.need(cudnn.Forward)
	p.elastic(need)
	drop(xc, wc)
	flops := shape.flops()
	p.unsure(shape.work(p.op, cudnn.Forward, flops, in.Bytes()+weight.Bytes(), out.Bytes(), need))
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
		need := s.need(cudnn.InputGrad)
		p.elastic(need)
		w := s.work("aten::convolution_backward.input", cudnn.InputGrad, flops, g.Bytes()+s.w.Bytes(), s.x.Bytes(), need)
		w.Shape[0] = s.x.Dim(1) / s.c.Groups
		p.unsure(w)
	}
	if n.needs(1) {
		grads[1] = p.empty(format(s.w.Sizes), s.w.DType)
		need := s.need(cudnn.WeightGrad)
		p.elastic(need)
		w := s.work("aten::convolution_backward.weight", cudnn.WeightGrad, flops, g.Bytes()+s.x.Bytes(), s.w.Bytes(), need)
		w.Shape[0] = min(w.Shape[0], s.x.Dim(1)/s.c.Groups*s.taps())
		p.unsure(w)
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

// work is what a pass of a convolution does.
func (s convShape) work(op string, pass cudnn.Pass, flops float64, read, written units.Bytes, need cudnn.Need) Work {
	w := Work{
		Op: op, Kind: Convolved, DType: s.x.DType, Result: s.x.DType, FLOPs: flops, Read: read, Written: written, Kernels: 1,
		Shape: [4]int{s.y.Dim(1) / s.c.Groups, s.x.Dim(1), s.x.Numel()},
	}
	if moved := s.copied(pass); moved > 0 {
		w.Layout, w.Kernels = moved, 3
	}
	w.Spare, w.Unmeasured = s.spare(need, read+written), s.table == nil
	if s.table != nil && need.Sure < agreed && !need.Tried {
		w.Doubt, w.Excess = max(0, need.High-need.Takes), max(0, need.Takes-need.Low)
	}
	if s.table != nil && s.x.Dim(0) >= unmeasuredBatch && !need.Tried {
		w.Doubt = max(w.Doubt, s.described().Transformed()-need.Takes)
	}
	if s.depthwise() && !s.last {
		w.Taps = s.taps()
	}
	return w
}

// agreed is the share of a table's trees from which on their answer stands alone. Below it, neighbours were measured with several plans: the weight gradient of
// 128 to 64 channels over 64 × 32 × 32 takes 412 MiB on an H200 where many of its neighbours take a copy of the operands, 52 MiB.
const agreed = 0.8

// unmeasuredBatch is the batch from which on a plan by FFT was seen that no measured neighbour has: [1000, 16, 14, 14] by 32 filters of 5×5 in fp32 takes 266 MiB forward on an H200.
const unmeasuredBatch = 768

// spare is how much more a pass may take: what other plans of measured neighbours took. For thin kernels, and in fp32 for 1×1, grouped, 1-D and 3-D ones, steps
// were seen to reserve more than their convolutions take alone, up to copies of all they read and write beside the gradients.
func (s convShape) spare(need cudnn.Need, moved units.Bytes) units.Bytes {
	more := max(0, need.High-need.Takes)
	if need.Tried {
		return 0 // a bound with trials is found by running them at their most
	}
	if s.depthwise() && s.taps() >= 49 && s.last {
		return max(more, 9*moved) // measured: 157 MiB for an input of 18 MiB
	}
	more = max(more, s.described().Transformed()-need.Takes)
	if s.x.Dim(1) <= 4 || s.x.DType == tensor.Float32 && (s.x.Rank() != 4 || s.taps() == 1 || s.c.Groups > 1) {
		more = max(more, 2*moved)
	}
	return more
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
	table   *cudnn.Table

	benchmark *Benchmark
	plans     Plans
}

// need is what cuDNN takes for a pass.
func (s convShape) need(pass cudnn.Pass) cudnn.Need {
	if s.c.Plain {
		n := s.columns()
		return cudnn.Need{Takes: n, Least: n, Low: n, High: n, Sure: 1}
	}
	c := s.described()
	need := s.table.Need(c, pass, s.benchmark.mode(c, pass))
	if need.Tried && s.benchmark.Most {
		need.Takes = need.High
	}
	if s.table == nil || need.Tried {
		return need
	}
	switch doubted := need.Sure < agreed; {
	case s.plans == LeastPlans && doubted:
		need.Takes = need.Low
	case s.plans == MostPlans && doubted:
		need.Takes = need.High
	case s.plans == BoundPlans:
		need.Takes = max(need.Takes, need.Bound)
	}
	if s.plans > LikelyPlans && need.Sure < 1 && s.x.Dim(0) >= unmeasuredBatch {
		need.Takes = max(need.Takes, c.Transformed())
	}
	return need
}

// columns is what PyTorch's own convolution unfolds its input into, one sample at a time, where its kernel has more than one point
// (https://github.com/pytorch/pytorch/blob/v2.11.0/aten/src/ATen/native/cuda/ConvolutionMM2d.cu, slow_conv2d_forward; NaiveDilatedConvolution.cu).
func (s convShape) columns() units.Bytes {
	if s.taps() == 1 || s.depthwise() {
		return 0
	}
	spread := s.y
	if s.c.Transposed {
		spread = s.x
	}
	n := s.w.Dim(1) * s.taps()
	for _, size := range spread.Sizes[2:] {
		n *= size
	}
	return units.Bytes(n) * s.x.DType.Width()
}

// described is the convolution as cuDNN sees it.
func (s convShape) described() cudnn.Conv {
	in, out := s.x.Sizes, s.y.Sizes
	if s.c.Transposed {
		in, out = out, in
	}
	last := len(in) - 3
	return cudnn.Conv{
		Groups: s.c.Groups, Width: int(s.x.DType.Width()), BF16: s.x.DType == tensor.BFloat16, Last: s.last, Transposed: s.c.Transposed,
		Stride: pickDim(s.c.Stride, last, 1), Pad: pickDim(s.c.Padding, last, 0), Dilation: pickDim(s.c.Dilation, last, 1),
	}.Sized(in, out, s.c.Kernel)
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

// depthwise convolutions run in PyTorch's own kernels, without a workspace.
func (s convShape) depthwise() bool {
	return s.c.Groups > 1 && s.c.Groups == s.x.Dim(1) && !s.c.Transposed && s.x.Rank() == 4
}
