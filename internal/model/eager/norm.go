package eager

import (
	"github.com/plimsoll/plimsoll/internal/model/tensor"
	"github.com/plimsoll/plimsoll/internal/units"
)

// LayerNorm normalises over the last dimensions that weight covers. native_layer_norm is a formula of several outputs: it saves input,
// mean, rstd (fp32), weight and bias whatever needs a gradient. On autocast's fp32 list.
func LayerNorm(x, w, b *Tensor, width int) *Tensor {
	p := x.p
	bias, weight, in := p.raise(b), p.raise(w), p.raise(x)
	p.op = "aten::native_layer_norm"
	n := p.record("NativeLayerNormBackward0", in, weight, bias)
	n.save(in, weight, bias)
	rows := in.Numel() / max(width, 1)
	whole := p.inFormat(in, false) // expect_contiguous: the kernel's own copy (layer_norm_kernel.cu)
	out := p.emptyOf(in.DType, in.Sizes...)
	mean := p.emptyOf(tensor.Float32, rows)
	rstd := p.emptyOf(tensor.Float32, rows)
	n.save(mean, rstd)
	n.out(out)
	drop(whole)
	p.observe(p.op, in.DType, 8*float64(in.Numel()), in.Bytes(), out.Bytes())
	n.backward(func(g []*Tensor) []*Tensor {
		grads := make([]*Tensor, 3)
		gc, xc := p.inFormat(g[0], false), p.inFormat(in, false)
		if n.needs(0) {
			grads[0] = p.emptyOf(in.DType, in.Sizes...)
		}
		for i, param := range []*Tensor{weight, bias} {
			if param != nil && n.needs(i+1) {
				grads[i+1] = p.emptyOf(param.DType, param.Sizes...)
			}
		}
		p.sumTallNorm(rows, width, grads[1:])
		p.observe("NativeLayerNormBackward0", in.DType, 8*float64(in.Numel()), 2*in.Bytes(), in.Bytes())
		p.work(Work{Op: "GammaBetaBackward", DType: in.DType, Result: in.DType, FLOPs: 8 * float64(in.Numel()), Read: 2 * in.Bytes(), Kernels: 1, Shape: [4]int{width}})
		drop(gc, xc)
		return grads
	})
	drop(mean, rstd, bias, b, weight, w, in, x)
	return out
}

// Softmax saves its result; its backward makes a product and the result. Autocast computes it in fp32 (fp32_set_opt_dtype).
func (t *Tensor) Softmax(dim int) *Tensor {
	p := t.p
	d := t.DType
	if _, on := p.Autocasting(); on && d.Half() {
		d = tensor.Float32
	}
	return t.SoftmaxTo(dim, d)
}

// SoftmaxTo is softmax with a dtype argument. A float16 input with an fp32 result is converted inside the kernel; a
// bfloat16 one is copied first (aten/src/ATen/native/SoftMax.cpp: half_to_float is for kHalf alone).
func (t *Tensor) SoftmaxTo(dim int, d tensor.DType) *Tensor {
	return t.softmaxOp("aten::_softmax", "SoftmaxBackward0", dim, d, 2)
}

// LogSoftmax saves its result; its backward makes the result only.
func (t *Tensor) LogSoftmax(dim int) *Tensor {
	return t.softmaxOp("aten::_log_softmax", "LogSoftmaxBackward0", dim, t.DType, 1)
}

func (t *Tensor) softmaxOp(name, node string, dim int, d tensor.DType, temps int) *Tensor {
	in := t
	if d != t.DType && !(t.DType == tensor.Float16 && d == tensor.Float32) {
		in = t.To(d)
	}
	in = in.Contiguous()
	in.alive()
	_ = in.Axis(dim)
	p := t.p
	p.op = name
	n := p.record(node, in)
	out := p.emptyOf(d, in.Sizes...)
	n.save(out)
	n.out(out)
	from := in.DType
	// Rows of up to 1024 elements stay in registers, longer ones are read twice (PersistentSoftmax.cuh, SoftMax.cu).
	times := units.Bytes(1)
	if in.Dim(dim) > 1024 {
		times = 2
	}
	p.observe(name, d, 5*float64(in.Numel()), times*in.Bytes(), out.Bytes())
	n.backward(func(g []*Tensor) []*Tensor {
		var product *Tensor
		if temps == 2 {
			product = p.empty(g[0].Like(), g[0].DType)
			p.observe("aten::mul", g[0].DType, 0, 2*product.Bytes(), product.Bytes())
		}
		res := p.emptyOf(from, in.Sizes...)
		p.observe(node, d, 4*float64(in.Numel()), times*2*g[0].Bytes(), res.Bytes())
		drop(product)
		return []*Tensor{res}
	})
	drop(in, t)
	return out
}

// RMSNorm is torch.nn.functional.rms_norm's fused kernel: it saves input, rstd (fp32) and weight.
func RMSNorm(x, w *Tensor, width int) *Tensor {
	p := x.p
	p.op = "aten::_fused_rms_norm"
	n := p.record("FusedRmsNormBackward0", x, w)
	n.save(x, w)
	whole := p.inFormat(x, false) // expect_contiguous: the kernel's own copy (layer_norm_kernel.cu)
	out := p.emptyOf(x.DType, x.Sizes...)
	rstd := p.emptyOf(tensor.Float32, x.Numel()/max(width, 1))
	n.save(rstd)
	n.out(out)
	drop(whole)
	in := x
	p.observe(p.op, x.DType, 4*float64(x.Numel()), x.Bytes(), out.Bytes())
	n.backward(func(g []*Tensor) []*Tensor {
		p.observe("FusedRmsNormBackward0", in.DType, 8*float64(in.Numel()), 2*in.Bytes(), in.Bytes())
		grads := make([]*Tensor, 2)
		gc, xc := p.inFormat(g[0], false), p.inFormat(in, false)
		if n.needs(0) {
			grads[0] = p.emptyOf(in.DType, in.Sizes...)
		}
		if w != nil && n.needs(1) {
			grads[1] = p.emptyOf(w.DType, w.Sizes...)
		}
		p.sumTallNorm(in.Numel()/max(width, 1), width, grads[1:])
		drop(gc, xc)
		return grads
	})
	drop(rstd, x, w)
	return out
}

// sumTallNorm: with very many short rows the gradients of weight and bias are first summed over blocks of 32 rows; the sum of those
// takes the place of the gradient (layer_norm_kernel.cu, LaunchGammaBetaBackwardCUDAKernel).
func (p *Process) sumTallNorm(rows, width int, grads []*Tensor) {
	if rows <= 64*1024 || width/32 >= p.Device.SMs/2 {
		return
	}
	blocks := min(32*1024/ceilDiv(width, 32), ceilDiv(rows, 32))
	parts := make([]*Tensor, len(grads))
	for i, g := range grads {
		if g != nil {
			parts[i] = p.emptyOf(g.DType, blocks, width)
		}
	}
	for i, g := range grads {
		if g == nil {
			continue
		}
		sum := p.reduceDims(parts[i], []int{0}, g.DType)
		sum.Layout = g.Layout
		drop(g)
		grads[i] = sum
	}
	drop(parts...)
}
