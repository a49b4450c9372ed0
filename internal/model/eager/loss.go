package eager

import (
	"github.com/plimsoll/plimsoll/internal/model/tensor"
	"github.com/plimsoll/plimsoll/internal/units"
)

// CrossEntropy is F.cross_entropy with class indices: log_softmax, then nll_loss. logits are [rows, classes] or
// [batch, classes, ...].
func CrossEntropy(logits, target *Tensor) *Tensor {
	return NLLLoss(logits.LogSoftmax(1), target)
}

// NLLLoss saves the log-probabilities and the target; on autocast's fp32 list.
func NLLLoss(logp, target *Tensor) *Tensor {
	p := logp.p
	in := p.raise(logp)
	p.op = "aten::nll_loss"
	n := p.record("NllLossBackward0", in)
	n.save(in, target)
	out := p.emptyOf(in.DType)
	total := p.emptyOf(in.DType)
	n.save(total)
	n.out(out)
	p.observe(p.op, in.DType, float64(target.Numel()), target.Bytes(), 0)
	n.backward(func(g []*Tensor) []*Tensor {
		res := p.zerosLike(in.Layout, in.DType)
		return []*Tensor{res}
	})
	drop(total, in, target)
	return out
}

// NLLEach is nll_loss with reduction "none": a number for every target.
func NLLEach(logp, target *Tensor) *Tensor {
	p := logp.p
	in := p.raise(logp)
	p.op = "aten::nll_loss"
	n := p.record("NllLossBackward0", in)
	n.save(in, target)
	out := n.out(p.emptyOf(in.DType, target.Sizes...))
	p.observe(p.op, in.DType, float64(target.Numel()), target.Bytes(), out.Bytes())
	n.backward(func(g []*Tensor) []*Tensor { return []*Tensor{p.zerosLike(in.Layout, in.DType)} })
	drop(in, target)
	return out
}

// SoftCrossEntropy is F.cross_entropy with the probabilities of the classes: the mean of what their product with the logarithms sums up to
// (https://github.com/pytorch/pytorch/blob/v2.11.0/aten/src/ATen/native/LossNLL.cpp, cross_entropy_loss_prob_target).
func SoftCrossEntropy(logits, target *Tensor, reduced bool) *Tensor {
	c := logits.p.Function(logits, target)
	product := c.Let(c.Let(logits.LogSoftmax(1)).Mul(target))
	if reduced {
		return c.Return(c.Let(c.Let(product.Sum(false)).Neg()).DivScalar())
	}
	return c.Return(c.Let(product.Sum(false, 1)).Neg())
}

// EachLoss is a loss of two tensors with reduction "none": the squares, or what else, of all elements. Saves both; on autocast's fp32 list.
func EachLoss(a, b *Tensor) *Tensor {
	p := a.p
	lb, la := p.raise(b), p.raise(a)
	p.op = "aten::mse_loss"
	n := p.record("MseLossBackward0", la, lb)
	n.save(la, lb)
	out := n.out(p.empty(la.Like(), la.DType))
	p.observe(p.op, la.DType, 2*float64(la.Numel()), la.Bytes()+stored(lb), out.Bytes())
	n.backward(func(g []*Tensor) []*Tensor { return n.gradientsOfBoth(la, 3*la.Bytes()) })
	drop(la, lb, a, b)
	return out
}

// MSELoss saves both; on autocast's fp32 list. Its scalar keeps the storage of all squares, which it was resized from
// (measured; aten/src/ATen/native/Loss.cpp, mse_loss_out).
func MSELoss(a, b *Tensor) *Tensor {
	p := a.p
	lb, la := p.raise(b), p.raise(a)
	p.op = "aten::mse_loss"
	n := p.record("MseLossBackward0", la, lb)
	n.save(la, lb)
	out := p.empty(la.Like(), la.DType)
	squares := p.empty(la.Like(), la.DType)
	p.observe(p.op, la.DType, 2*float64(la.Numel()), la.Bytes()+stored(lb), squares.Bytes())
	p.reductionScratch(la.Layout, seqDims(la.Rank()), la.DType)
	drop(squares)
	out.Layout = tensor.Of()
	n.out(out)
	n.backward(func(g []*Tensor) []*Tensor { return n.gradientsOfBoth(la, 2*la.Bytes()) })
	drop(la, lb, a, b)
	return out
}

// gradientsOfBoth are those of the two inputs of a loss, each as large as the first, computed from so many bytes.
func (n *Node) gradientsOfBoth(a *Tensor, reads units.Bytes) []*Tensor {
	grads := make([]*Tensor, 2)
	for i := range grads {
		if n.needs(i) {
			grads[i] = a.p.empty(a.Like(), a.DType)
			a.p.observe(n.name, a.DType, float64(a.Numel()), reads, a.Bytes())
		}
	}
	return grads
}

// BinaryCrossEntropy saves both; the loss of every element is made, and its mean written into the same storage
// (https://github.com/pytorch/pytorch/blob/v2.11.0/aten/src/ATen/native/cuda/Loss.cu, binary_cross_entropy_out_cuda).
func BinaryCrossEntropy(a, b *Tensor, reduced bool) *Tensor {
	p := a.p
	p.op = "aten::binary_cross_entropy"
	n := p.record("BinaryCrossEntropyBackward0", a)
	n.save(a, b)
	out := p.empty(a.Like(), a.DType)
	p.observe(p.op, a.DType, 4*float64(a.Numel()), a.Bytes()+stored(b), out.Bytes())
	if reduced {
		p.reductionScratch(a.Layout, seqDims(a.Rank()), a.DType)
		drop(p.empty(tensor.Of(), a.DType))
		out.Layout = tensor.Of()
	}
	n.out(out)
	n.backward(func(g []*Tensor) []*Tensor {
		p.observe(n.name, a.DType, 4*float64(a.Numel()), 2*a.Bytes(), a.Bytes())
		return []*Tensor{p.empty(a.Like(), a.DType)}
	})
	drop(a, b)
	return out
}

// BinaryCrossEntropyWithLogits saves both; on autocast's fp32 list. Two tensors of the input's size are made on the way to the loss, and
// two on the way back (https://github.com/pytorch/pytorch/blob/v2.11.0/aten/src/ATen/native/Loss.cpp, binary_cross_entropy_with_logits;
// torch/csrc/autograd/FunctionsManual.cpp, binary_cross_entropy_with_logits_backward).
func BinaryCrossEntropyWithLogits(a, b *Tensor, reduced bool) *Tensor {
	p := a.p
	in := p.raise(a)
	p.op = "aten::binary_cross_entropy_with_logits"
	n := p.record("BinaryCrossEntropyWithLogitsBackward0", in)
	n.save(in, b)
	logs, out := p.empty(in.Like(), in.DType), p.empty(in.Like(), in.DType)
	p.observe(p.op, in.DType, 6*float64(in.Numel()), in.Bytes()+stored(b), out.Bytes())
	drop(logs)
	if reduced {
		p.reductionScratch(in.Layout, seqDims(in.Rank()), in.DType)
		mean := p.empty(tensor.Of(), in.DType)
		drop(out)
		out = mean
	}
	n.out(out)
	n.backward(func(g []*Tensor) []*Tensor {
		p.observe(n.name, in.DType, 6*float64(in.Numel()), 2*in.Bytes(), in.Bytes())
		sigmoid := p.empty(in.Like(), in.DType)
		grad := p.empty(in.Like(), in.DType)
		drop(sigmoid)
		return []*Tensor{grad}
	})
	drop(in, b)
	return out
}

// HuberLoss is the mean Huber loss: the losses of the elements are let go once their mean is taken (aten/src/ATen/native/Loss.cpp, huber_loss).
func HuberLoss(a, b *Tensor) *Tensor {
	p := a.p
	p.op = "aten::huber_loss"
	n := p.record("HuberLossBackward0", a, b)
	n.save(a, b)
	losses := p.empty(a.Like(), a.DType)
	p.reductionScratch(a.Layout, seqDims(a.Rank()), a.DType)
	out := p.empty(tensor.Of(), a.DType)
	p.observe(p.op, a.DType, 2*float64(a.Numel()), a.Bytes()+stored(b), losses.Bytes())
	drop(losses)
	n.out(out)
	n.backward(func(g []*Tensor) []*Tensor {
		grads := make([]*Tensor, 2)
		for i := range grads {
			if n.needs(i) {
				grads[i] = p.empty(a.Like(), a.DType)
				p.observe(n.name, a.DType, float64(a.Numel()), 2*a.Bytes(), a.Bytes())
			}
		}
		return grads
	})
	drop(a, b)
	return out
}

func seqDims(rank int) []int {
	out := make([]int, rank)
	for i := range out {
		out[i] = i
	}
	return out
}

// CausalLMLoss is transformers' ForCausalLMLoss (loss/loss_utils.py, 5.17): logits in fp32, labels padded and shifted, so
// that logits are not copied.
func CausalLMLoss(logits, labels *Tensor) *Tensor {
	c := logits.p.Function(logits, labels)
	c.Set(&logits, logits.To(tensor.Float32))
	c.Set(&labels, labels.Pad(0, 1))
	shift := c.Let(labels.Slice(-1, 1, labels.Dim(-1)).Contiguous())
	c.Set(&logits, logits.View(-1, logits.Dim(-1)))
	c.Set(&shift, shift.View(-1))
	return c.Return(CrossEntropy(logits, shift))
}

// Pad extends the last dimension with a constant.
func (t *Tensor) Pad(before, after int) *Tensor {
	sizes := append([]int(nil), t.Sizes...)
	sizes[len(sizes)-1] += before + after
	return t.PadTo(sizes...)
}

// PadTo extends dimensions to the given sizes with a constant; the gradient is a slice of the incoming one, copied. Nothing to add is
// a copy too (aten/src/ATen/native/PadNd.cpp, constant_pad_nd).
func (t *Tensor) PadTo(sizes ...int) *Tensor {
	t.alive()
	p := t.p
	p.op = "aten::constant_pad_nd"
	n := p.record("ConstantPadNdBackward0", t)
	out := n.out(p.emptyOf(t.DType, sizes...))
	p.observe(p.op, t.DType, 0, t.Bytes(), out.Bytes())
	from := t.Sizes
	n.backward(func(g []*Tensor) []*Tensor {
		part := p.emptyOf(g[0].DType, from...)
		p.observe("aten::clone", part.DType, 0, part.Bytes(), part.Bytes())
		return []*Tensor{part}
	})
	drop(t)
	return out
}
