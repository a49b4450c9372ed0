package eager

import "github.com/plimsoll/plimsoll/internal/tensor"

// ReLUInPlace writes over its input and saves the result, which is the same memory.
func (t *Tensor) ReLUInPlace() *Tensor { return t.overwrite("aten::relu_", "ReluBackward0", output, 1) }

// ClampInPlace is hardtanh_ or clamp_: the formula needs the input, so a clone is taken before the write and saved.
func (t *Tensor) ClampInPlace() *Tensor {
	return t.overwrite("aten::hardtanh_", "HardtanhBackward0", input, 1)
}

// SiLUInPlace saves a clone of its input.
func (t *Tensor) SiLUInPlace() *Tensor { return t.overwrite("aten::silu_", "SiluBackward0", input, 1) }

// MulScalarInPlace scales by a number.
func (t *Tensor) MulScalarInPlace() *Tensor {
	return t.overwrite("aten::mul_", "MulBackward0", nothing, 1)
}

// MulInPlace is t *= o: it saves the operands as Mul does, the first as a clone taken before the write.
func (t *Tensor) MulInPlace(o *Tensor) *Tensor {
	t.alive()
	p := t.p
	p.op = "aten::mul_"
	n := p.record("MulBackward0", t, o)
	if n.needs(1) {
		old := p.empty(t.Like(), t.DType)
		n.save(old)
		drop(old)
	}
	n.saveIf(n.needs(0), o)
	n.backward(func(g []*Tensor) []*Tensor {
		out := make([]*Tensor, 2)
		for i := range out {
			if n.needs(i) {
				out[i] = p.elementwiseGrad("aten::mul", g[0], 1)
			}
		}
		return out
	})
	t.rebase(n)
	if o != t {
		drop(o)
	}
	return t
}

// overwrite runs an elementwise function in place. A formula that needs the input saves a clone of it (gen_variable_type.py:
// original_self); one that needs the result saves the memory itself.
func (t *Tensor) overwrite(name, node string, keep saves, backTemps int) *Tensor {
	t.alive()
	p := t.p
	p.op = name
	n := p.record(node, t)
	if n != nil && keep == input {
		old := p.empty(t.Like(), t.DType)
		n.save(old)
		drop(old)
	}
	n.saveIf(keep == output, t)
	p.observe(name, t.DType, float64(t.Numel()), t.Bytes(), t.Bytes())
	n.backward(func(g []*Tensor) []*Tensor { return []*Tensor{p.elementwiseGrad(node, g[0], backTemps)} })
	t.rebase(n)
	return t
}

// DropoutInPlace is F.dropout(inplace=True): a mask of the tensor's own type (at::dropout_ multiplies by noise).
func (t *Tensor) DropoutInPlace(prob float64) *Tensor {
	if prob == 0 {
		return t
	}
	p := t.p
	p.op = "aten::dropout_"
	noise := p.empty(t.Like(), t.DType)
	return t.MulInPlace(noise)
}

// MaskedFill keeps the mask; in place or not the gradient is one masked copy.
func (t *Tensor) MaskedFill(mask *Tensor, inPlace bool) *Tensor {
	t.alive()
	p := t.p
	p.op = "aten::masked_fill"
	n := p.record("MaskedFillBackward0", t)
	n.save(mask)
	n.backward(func(g []*Tensor) []*Tensor { return []*Tensor{p.elementwiseGrad("MaskedFillBackward0", g[0], 1)} })
	if inPlace {
		t.rebase(n)
		drop(mask)
		return t
	}
	out := n.out(p.empty(tensor.Of(tensor.Broadcast(t.Sizes, mask.Sizes)...), t.DType))
	drop(mask, t)
	return out
}
