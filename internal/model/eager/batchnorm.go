package eager

import "github.com/plimsoll/plimsoll/internal/model/tensor"

// BatchNorm normalises over batch and space in training: it saves input, weight, the running statistics and mean and inverse
// deviation of the batch (fp32). No reserve buffer of cuDNN was seen in any layout (measured). On no autocast list.
func BatchNorm(x, w, b, mean, variance *Tensor) *Tensor {
	p := x.p
	p.op = "aten::batch_norm"
	n := p.record("NativeBatchNormBackward0", x, w, b)
	n.save(x, w, mean, variance)
	channels := x.Dim(1)
	out := p.empty(formatLike(x.Layout, x.Sizes), x.DType)
	saveMean := p.emptyOf(tensor.Float32, channels)
	saveVar := p.emptyOf(tensor.Float32, channels)
	n.save(saveMean, saveVar)
	n.out(out)
	in := x
	// The statistics read the input once, the transformation reads it again and writes; backward reads input and gradient twice.
	space := 0 // channels_last: a kernel for all channels
	if x.IsContiguous() {
		space = x.Numel() / max(1, channels*x.Dim(0))
	}
	norm := Work{Op: p.op, Kind: Normalised, DType: x.DType, Result: x.DType, FLOPs: 8 * float64(x.Numel()), Kernels: 2, Shape: [4]int{channels, x.Numel(), space}}
	norm.Read, norm.Written = 2*x.Bytes(), out.Bytes()
	p.work(norm)
	n.backward(func(g []*Tensor) []*Tensor {
		grads := make([]*Tensor, 3)
		if n.needs(0) {
			grads[0] = p.empty(formatLike(in.Layout, in.Sizes), in.DType)
		}
		for i, t := range []*Tensor{w, b} {
			if t != nil && n.needs(i+1) {
				grads[i+1] = p.emptyOf(t.DType, t.Sizes...)
			}
		}
		back := norm
		back.Op, back.Read = "NativeBatchNormBackward0", 4*in.Bytes()
		p.work(back)
		return grads
	})
	drop(saveMean, saveVar, x, w, b)
	return out
}

// GroupNorm saves input, weight, mean and rstd of each group; on autocast's fp32 list.
func GroupNorm(x, w, b *Tensor, groups int) *Tensor {
	p := x.p
	bias, weight, in := p.raise(b), p.raise(w), p.raise(x)
	p.op = "aten::native_group_norm"
	n := p.record("NativeGroupNormBackward0", in, weight, bias)
	n.save(in, weight)
	out := p.empty(formatLike(in.Layout, in.Sizes), in.DType)
	mean := p.emptyOf(in.DType, in.Dim(0), groups)
	rstd := p.emptyOf(in.DType, in.Dim(0), groups)
	n.save(mean, rstd)
	n.out(out)
	p.observe(p.op, in.DType, 8*float64(in.Numel()), in.Bytes(), out.Bytes())
	n.backward(func(g []*Tensor) []*Tensor {
		grads := make([]*Tensor, 3)
		if n.needs(0) {
			grads[0] = p.empty(formatLike(in.Layout, in.Sizes), in.DType)
		}
		for i, t := range []*Tensor{weight, bias} {
			if t != nil && n.needs(i+1) {
				grads[i+1] = p.emptyOf(t.DType, t.Sizes...)
			}
		}
		p.observe("NativeGroupNormBackward0", in.DType, 12*float64(in.Numel()), 4*in.Bytes(), in.Bytes())
		return grads
	})
	drop(mean, rstd, bias, b, weight, w, in, x)
	return out
}
