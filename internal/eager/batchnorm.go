package eager

import "github.com/plimsoll/plimsoll/internal/tensor"

// BatchNorm is F.batch_norm in training: it saves input, weight, running statistics, and mean and inverse deviation of the batch in
// fp32 (2·C). No reserve buffer of cuDNN was seen in any type or memory format. It is on no autocast list: a 16-bit input
// with fp32 weights stays 16-bit (aten/src/ATen/native/Normalization.cpp, 2.11).
func BatchNorm(x, w, b, mean, variance *Tensor) *Tensor {
	p := x.p
	p.op = "aten::batch_norm"
	n := p.record("NativeBatchNormBackward0", x, w, b)
	n.save(x, w, mean, variance)
	in := x
	out := p.empty(normLayout(x), x.DType)
	saveMean := p.emptyOf(tensor.Float32, x.Dim(1))
	saveStd := p.emptyOf(tensor.Float32, x.Dim(1))
	n.save(saveMean, saveStd)
	n.out(out)
	p.observe(p.op, x.DType, 8*float64(x.Numel()), x.Bytes(), out.Bytes())
	n.backward(func(g []*Tensor) []*Tensor {
		grads := make([]*Tensor, 3)
		var copied *Tensor
		if !sameFormat(g[0], in) {
			copied = p.empty(normLayout(in), g[0].DType)
		}
		if n.needs(0) {
			grads[0] = p.empty(normLayout(in), in.DType)
		}
		for i, param := range []*Tensor{w, b} {
			if param != nil && n.needs(i+1) {
				grads[i+1] = p.emptyOf(param.DType, param.Sizes...)
			}
		}
		p.observe("NativeBatchNormBackward0", in.DType, 16*float64(in.Numel()), 2*in.Bytes(), in.Bytes())
		drop(copied)
		return grads
	})
	drop(saveMean, saveStd, x, w, b, mean, variance)
	return out
}

// normLayout keeps channels_last, everything else becomes contiguous.
func normLayout(t *Tensor) tensor.Layout {
	if suggestsLast(t) {
		return tensor.ChannelsLast(t.Sizes...)
	}
	return tensor.Of(t.Sizes...)
}

func sameFormat(g, in *Tensor) bool {
	if suggestsLast(in) {
		return g.IsChannelsLast()
	}
	return g.IsContiguous()
}

// GroupNorm saves input, mean, rstd (one each for every sample and group) and weight; on autocast's fp32 list.
func GroupNorm(x, w, b *Tensor, groups int) *Tensor {
	p := x.p
	bias, weight, in := p.raise(b), p.raise(w), p.raise(x)
	in = in.Contiguous()
	p.op = "aten::native_group_norm"
	n := p.record("NativeGroupNormBackward0", in, weight, bias)
	n.save(in, weight)
	out := p.emptyOf(in.DType, in.Sizes...)
	mean := p.emptyOf(in.DType, in.Dim(0), groups)
	rstd := p.emptyOf(in.DType, in.Dim(0), groups)
	n.save(mean, rstd)
	n.out(out)
	n.backward(func(g []*Tensor) []*Tensor {
		grads := make([]*Tensor, 3)
		gc := g[0].Contiguous()
		for i, t := range []*Tensor{in, weight, bias} {
			if t != nil && n.needs(i) {
				grads[i] = p.emptyOf(t.DType, t.Sizes...)
			}
		}
		if gc != g[0] {
			drop(gc)
		}
		return grads
	})
	drop(mean, rstd, bias, b, weight, w, in, x)
	return out
}
