package eager

import "github.com/plimsoll/plimsoll/internal/model/tensor"

// More elementwise functions; each names what derivatives.yaml (2.11) saves.

// Hardswish saves its input.
func (t *Tensor) Hardswish() *Tensor {
	return t.unary("aten::hardswish", "HardswishBackward0", input, 1)
}

// Hardsigmoid saves its input.
func (t *Tensor) Hardsigmoid() *Tensor {
	return t.unary("aten::hardsigmoid", "HardsigmoidBackward0", input, 1)
}

// LeakyReLU saves its input.
func (t *Tensor) LeakyReLU() *Tensor {
	return t.unary("aten::leaky_relu", "LeakyReluBackward0", input, 1)
}

// ELU saves its input.
func (t *Tensor) ELU() *Tensor { return t.unary("aten::elu", "EluBackward0", input, 1) }

// Mish saves its input.
func (t *Tensor) Mish() *Tensor { return t.unary("aten::mish", "MishBackward0", input, 1) }

// Softplus saves its input; on autocast's fp32 list.
func (t *Tensor) Softplus() *Tensor {
	return t.p.raise(t).unary("aten::softplus", "SoftplusBackward0", input, 1)
}

// Hardtanh saves its input; ReLU6 is hardtanh(0, 6).
func (t *Tensor) Hardtanh() *Tensor {
	return t.unary("aten::hardtanh", "HardtanhBackward0", input, 1)
}

// Clamp saves its input: where(mask, grad, 0), the mask made in backward.
func (t *Tensor) Clamp() *Tensor { return t.unary("aten::clamp", "ClampBackward1", input, 2) }

// Floor has no gradient but zeros.
func (t *Tensor) Floor() *Tensor { return t.unary("aten::floor", "FloorBackward0", nothing, 1) }

// ReLUInPlace saves its result, which is the tensor itself.
func (t *Tensor) ReLUInPlace() *Tensor {
	return t.inPlace("aten::relu_", "ReluBackward0", output)
}

// SiLUInPlace needs its input in backward, so it saves a clone taken before the write: in place saves nothing.
func (t *Tensor) SiLUInPlace() *Tensor { return t.inPlace("aten::silu_", "SiluBackward0", input) }

// HardtanhInPlace saves a clone of its input, as SiLUInPlace does.
func (t *Tensor) HardtanhInPlace() *Tensor {
	return t.inPlace("aten::hardtanh_", "HardtanhBackward0", input)
}

// MulScalarInPlace and its kin write over the tensor and save nothing.
func (t *Tensor) MulScalarInPlace() *Tensor { return t.inPlace("aten::mul_", "MulBackward0", nothing) }

// DropoutInPlace multiplies by a mask of the tensor's own type, which it saves (aten/src/ATen/native/Dropout.cpp, the
// in-place form has no fused kernel).
func (t *Tensor) DropoutInPlace(prob float64) *Tensor {
	if prob == 0 {
		return t
	}
	t.alive()
	p := t.p
	p.op = "aten::dropout_"
	n := p.record("MulBackward0", t)
	noise := p.empty(t.Like(), t.DType)
	p.work(Work{Op: p.op, DType: t.DType, Result: t.DType, Read: 3 * t.Bytes(), Written: 3 * t.Bytes(), Kernels: 3})
	n.save(noise)
	n.backward(func(g []*Tensor) []*Tensor { return []*Tensor{p.elementwiseGrad("aten::mul", g[0], 1)} })
	drop(noise)
	t.rebase(n)
	return t
}

// inPlace writes a function's values over its argument.
func (t *Tensor) inPlace(name, node string, keep saves) *Tensor {
	t.alive()
	p := t.p
	p.op = name
	n := p.record(node, t)
	if n != nil && keep == input {
		clone := p.empty(t.Like(), t.DType)
		p.observe("aten::clone", t.DType, 0, t.Bytes(), clone.Bytes())
		n.save(clone)
		drop(clone)
	}
	n.saveIf(keep == output, t)
	p.observe(name, t.DType, float64(t.Numel()), t.Bytes(), t.Bytes())
	n.backward(func(g []*Tensor) []*Tensor { return []*Tensor{p.elementwiseGrad(node, g[0], 1)} })
	t.rebase(n)
	return t
}

// GLU halves a dimension and saves its input; the gradient has the input's size.
func (t *Tensor) GLU(dim int) *Tensor {
	t.alive()
	p := t.p
	p.op = "aten::glu"
	n := p.record("GluBackward0", t)
	n.save(t)
	sizes := append([]int(nil), t.Sizes...)
	sizes[t.Axis(dim)] /= 2
	out := n.out(p.emptyOf(t.DType, sizes...))
	from := t.Sizes
	p.observe(p.op, t.DType, float64(out.Numel()), t.Bytes(), out.Bytes())
	n.backward(func(g []*Tensor) []*Tensor {
		p.observe("GluBackward0", g[0].DType, 0, 3*g[0].Bytes(), 2*g[0].Bytes())
		return []*Tensor{p.emptyOf(g[0].DType, from...)}
	})
	drop(t)
	return out
}

// Where picks from two tensors by a condition, which it saves; each gradient is a where of its own.
func Where(cond, a, b *Tensor) *Tensor {
	p := cond.p
	p.op = "aten::where"
	n := p.record("WhereBackward0", a, b)
	n.save(cond)
	shape := binaryOut(a, b)
	if wide := binaryOut(cond, a); wide.Numel() > shape.Numel() {
		shape = wide
	}
	out := n.out(p.empty(shape, promoted(a, b)))
	p.observe(p.op, out.DType, float64(out.Numel()), a.Bytes()+b.Bytes(), out.Bytes())
	n.backward(func(g []*Tensor) []*Tensor {
		return p.bothGrads(n, "aten::where", g[0], 1, 1)
	})
	drop(cond, a, b)
	return out
}

// MaskedFill writes a number where a mask is set; it saves the mask.
func (t *Tensor) MaskedFill(mask *Tensor) *Tensor {
	t.alive()
	p := t.p
	p.op = "aten::masked_fill"
	n := p.record("MaskedFillBackward0", t)
	n.save(mask)
	out := n.out(p.empty(binaryOut(t, mask), t.DType))
	p.observe(p.op, t.DType, float64(out.Numel()), t.Bytes(), out.Bytes())
	n.backward(func(g []*Tensor) []*Tensor { return []*Tensor{p.elementwiseGrad("aten::masked_fill", g[0], 1)} })
	drop(t, mask)
	return out
}

// MaskedFillInPlace does so over the tensor itself.
func (t *Tensor) MaskedFillInPlace(mask *Tensor) *Tensor {
	t.alive()
	p := t.p
	p.op = "aten::masked_fill_"
	p.observe(p.op, t.DType, 0, stored(mask), t.Bytes())
	n := p.record("MaskedFillBackward0", t)
	n.save(mask)
	n.backward(func(g []*Tensor) []*Tensor { return []*Tensor{p.elementwiseGrad("aten::masked_fill", g[0], 1)} })
	t.rebase(n)
	drop(mask)
	return t
}

// MulInPlace is t *= o; where o needs a gradient the old values are saved, where t does, o is.
func (t *Tensor) MulInPlace(o *Tensor) *Tensor {
	t.alive()
	p := t.p
	p.op = "aten::mul_"
	p.observe(p.op, t.DType, float64(t.Numel()), t.Bytes()+stored(o), t.Bytes())
	n := p.record("MulBackward0", t, o)
	if n.needs(1) {
		clone := p.empty(t.Like(), t.DType)
		n.save(clone)
		drop(clone)
	}
	n.saveIf(n.needs(0), o)
	n.backward(func(g []*Tensor) []*Tensor {
		return p.bothGrads(n, "aten::mul", g[0], 1, 1)
	})
	t.rebase(n)
	drop(o)
	return t
}

// Maximum saves both: at::where(self == other, grad / 2, grad).masked_fill_(self < other, 0), for each.
func (t *Tensor) Maximum(o *Tensor) *Tensor {
	p := t.p
	keep := func(n *Node) { n.save(o, t) }
	return t.binary("aten::maximum", "MaximumBackward0", o, keep, func(n *Node, g *Tensor) []*Tensor {
		out := make([]*Tensor, 2)
		for _, i := range []int{1, 0} {
			if !n.needs(i) {
				continue
			}
			equal := p.emptyOf(tensor.Bool, g.Sizes...)
			half := p.empty(g.Like(), g.DType)
			out[i] = p.empty(g.Like(), g.DType)
			less := p.emptyOf(tensor.Bool, g.Sizes...)
			drop(equal, half, less)
		}
		return out
	})
}

// Cumsum saves nothing; backward flips, sums and flips. On autocast's fp32 list by its dtype argument.
func (t *Tensor) Cumsum(dim int) *Tensor {
	_ = t.Axis(dim)
	return t.p.raise(t).unary("aten::cumsum", "CumsumBackward0", nothing, 3)
}

// Roll moves entries around a dimension: a copy in both directions.
func (t *Tensor) Roll() *Tensor { return t.unary("aten::roll", "RollBackward0", nothing, 1) }

// Compare gives a boolean tensor (eq, ge, lt, ...).
func (t *Tensor) Compare(name string, o *Tensor) *Tensor {
	t.p.op = name
	shape := t.Layout
	if o != nil {
		shape = binaryOut(t, o)
	}
	out := t.p.emptyOf(tensor.Bool, shape.Sizes...)
	t.p.observe(name, t.DType, 0, stored(t), out.Bytes())
	drop(t, o)
	return out
}
