package eager

import (
	"cmp"
	"slices"

	"github.com/plimsoll/plimsoll/internal/model/tensor"
	"github.com/plimsoll/plimsoll/internal/units"
)

func sortTensors(ts []*Tensor) {
	slices.SortFunc(ts, func(a, b *Tensor) int { return cmp.Compare(a.store.id, b.store.id) })
}

// To converts to another type; the same type gives the tensor itself. It saves nothing.
func (t *Tensor) To(d tensor.DType) *Tensor { return t.toIn(d, t.Like()) }

// ToContiguous is To with memory_format=torch.contiguous_format: a copy lies in the order of its dimensions. Without a copy nothing is moved
// (https://github.com/pytorch/pytorch/blob/v2.11.0/aten/src/ATen/native/TensorConversions.cpp, to_will_alias: suggest_memory_format() knows no transposed ones).
func (t *Tensor) ToContiguous(d tensor.DType) *Tensor { return t.toIn(d, tensor.Of(t.Sizes...)) }

func (t *Tensor) toIn(d tensor.DType, l tensor.Layout) *Tensor {
	t.alive()
	if t.DType == d {
		return t
	}
	p := t.p
	p.op = "aten::_to_copy"
	n := p.record("ToCopyBackward0", t)
	out := n.out(p.empty(l, d))
	p.convert(t, out)
	n.backward(func(g []*Tensor) []*Tensor { return []*Tensor{g[0].To(t.DType)} })
	drop(t)
	return out
}

// convert reports a cast.
func (p *Process) convert(from, to *Tensor) {
	p.work(Work{Op: "aten::_to_copy", DType: from.DType, Result: to.DType, Read: stored(from), Written: to.Bytes(), Kernels: 1, Pace: pace(to, from)})
}

// Float is To(Float32).
func (t *Tensor) Float() *Tensor { return t.To(tensor.Float32) }

// Clone copies; the gradient passes through.
func (t *Tensor) Clone() *Tensor { return t.copyTo("CloneBackward0", t.Like()) }

// Contiguous copies unless the elements lie in row-major order already.
func (t *Tensor) Contiguous() *Tensor {
	if t.IsContiguous() {
		return t
	}
	return t.copyTo("CloneBackward0", tensor.Of(t.Sizes...))
}

func (t *Tensor) copyTo(name string, l tensor.Layout) *Tensor {
	t.alive()
	p := t.p
	p.op = "aten::clone"
	n := p.record(name, t)
	out := n.out(p.empty(l, t.DType))
	p.observePaced(p.op, 0, stored(t), out, pace(out, t))
	n.backward(func(g []*Tensor) []*Tensor { return g })
	drop(t)
	return out
}

// saves says what an elementwise formula keeps for backward.
type saves uint8

const (
	nothing saves = iota
	input
	output
)

// unary runs an elementwise function. backTemps is the number of full-size tensors alive at the end of its
// backward formula beside the incoming gradient (the result included).
func (t *Tensor) unary(name, node string, keep saves, backTemps int) *Tensor {
	t.alive()
	p := t.p
	p.op = name
	n := p.record(node, t)
	n.saveIf(keep == input, t)
	out := p.empty(t.Like(), t.DType)
	n.saveIf(keep == output, out)
	p.observe(name, t.DType, float64(t.Numel()), t.Bytes(), out.Bytes())
	n.out(out)
	n.backward(func(g []*Tensor) []*Tensor { return []*Tensor{p.elementwiseGrad(node, g[0], backTemps)} })
	drop(t)
	return out
}

// elementwiseGrad allocates the temporaries of a formula; C++ keeps them to the end of the expression.
func (p *Process) elementwiseGrad(node string, g *Tensor, temps int) *Tensor {
	return p.pacedGrad(node, g, temps, Vector)
}

// pacedGrad is elementwiseGrad where the product with the incoming gradient has some pace.
func (p *Process) pacedGrad(node string, g *Tensor, temps int, slow Pace) *Tensor {
	if temps == 0 {
		return g
	}
	var held []*Tensor
	for range temps - 1 {
		held = append(held, p.empty(g.Like(), g.DType))
	}
	out := p.empty(g.Like(), g.DType)
	// A chain of unary functions and one product with the incoming gradient.
	p.work(Work{
		Op: node, DType: g.DType, Result: g.DType, FLOPs: float64(g.Numel() * temps), Kernels: temps,
		Read: units.Bytes(temps+1) * out.Bytes(), Written: units.Bytes(temps) * out.Bytes(), Pace: slow,
	})
	drop(held...)
	return out
}

// Elementwise functions, each with what tools/autograd/derivatives.yaml (2.11) saves.

// ReLU saves its result.
func (t *Tensor) ReLU() *Tensor { return t.unary("aten::relu", "ReluBackward0", output, 1) }

// Tanh saves its result.
func (t *Tensor) Tanh() *Tensor { return t.unary("aten::tanh", "TanhBackward0", output, 1) }

// Sigmoid saves its result.
func (t *Tensor) Sigmoid() *Tensor { return t.unary("aten::sigmoid", "SigmoidBackward0", output, 1) }

// GELU saves its input.
func (t *Tensor) GELU() *Tensor { return t.unary("aten::gelu", "GeluBackward0", input, 1) }

// SiLU saves its input.
func (t *Tensor) SiLU() *Tensor { return t.unary("aten::silu", "SiluBackward0", input, 1) }

// Erf saves its input: 2/√π * exp(-(self.pow(2))) * grad, five temporaries of one expression.
func (t *Tensor) Erf() *Tensor { return t.unary("aten::erf", "ErfBackward0", input, 5) }

// Neg saves nothing.
func (t *Tensor) Neg() *Tensor { return t.unary("aten::neg", "NegBackward0", nothing, 1) }

// Abs saves its input: grad * self.sgn().
func (t *Tensor) Abs() *Tensor { return t.unary("aten::abs", "AbsBackward0", input, 2) }

// Sqrt saves its result: grad / (2 * result).
func (t *Tensor) Sqrt() *Tensor { return t.unary("aten::sqrt", "SqrtBackward0", output, 2) }

// Rsqrt saves its result: -0.5 * grad * result.pow(3).
func (t *Tensor) Rsqrt() *Tensor {
	return t.p.raise(t).unary("aten::rsqrt", "RsqrtBackward0", output, 3)
}

// Reciprocal saves its result: grad * -((result * result).conj()); on autocast's fp32 list.
func (t *Tensor) Reciprocal() *Tensor {
	return t.p.raise(t).unary("aten::reciprocal", "ReciprocalBackward0", output, 3)
}

// Exp saves its result; on autocast's fp32 list.
func (t *Tensor) Exp() *Tensor { return t.p.raise(t).unary("aten::exp", "ExpBackward0", output, 1) }

// Log saves its input; on autocast's fp32 list.
func (t *Tensor) Log() *Tensor { return t.p.raise(t).unary("aten::log", "LogBackward0", input, 1) }

// Sin and cosine save their input: grad * self.cos().
func (t *Tensor) Sin() *Tensor { return t.unary("aten::sin", "SinBackward0", input, 2) }

// Cos saves its input.
func (t *Tensor) Cos() *Tensor { return t.unary("aten::cos", "CosBackward0", input, 2) }

// Pow raises to a number and saves its input: grad * (exponent * self.pow(exponent - 1)), three temporaries.
// It is on autocast's fp32 list.
func (t *Tensor) Pow() *Tensor { return t.p.raise(t).unary("aten::pow", "PowBackward0", input, 3) }

// AddScalar adds a number; the gradient passes through.
func (t *Tensor) AddScalar() *Tensor { return t.unary("aten::add", "AddBackward0", nothing, 0) }

// MulScalar multiplies by a number.
func (t *Tensor) MulScalar() *Tensor { return t.unary("aten::mul", "MulBackward0", nothing, 1) }

// DivScalar divides by a number.
func (t *Tensor) DivScalar() *Tensor { return t.unary("aten::div", "DivBackward0", nothing, 1) }

// binaryOut is the result's layout: that of the first operand that has the full shape (TensorIterator).
func binaryOut(a, b *Tensor) tensor.Layout {
	sizes := tensor.Broadcast(a.Sizes, b.Sizes)
	switch {
	case a.Same(sizes):
		return a.Like()
	case b.Same(sizes):
		return b.Like()
	}
	return tensor.Iterated(sizes, a.Layout, b.Layout)
}

// promoted is the result type; a tensor without dimensions does not widen one that has some.
func promoted(a, b *Tensor) tensor.DType {
	if a.Rank() == 0 && b.Rank() > 0 && b.DType.Floating() {
		return b.DType
	}
	if b.Rank() == 0 && a.Rank() > 0 && a.DType.Floating() {
		return a.DType
	}
	return tensor.Promote(a.DType, b.DType)
}

// binary runs an elementwise function of two tensors. Mixed types are converted inside the kernel, without copies.
func (t *Tensor) binary(name, node string, o *Tensor, keep func(n *Node), back func(n *Node, g *Tensor) []*Tensor) *Tensor {
	t.alive()
	o.alive()
	p := t.p
	p.op = name
	n := p.record(node, t, o)
	if n != nil {
		keep(n)
	}
	out := n.out(p.empty(binaryOut(t, o), promoted(t, o)))
	p.observePaced(name, float64(out.Numel()), stored(t)+stored(o), out, pace(out, t, o))
	n.backward(func(g []*Tensor) []*Tensor { return back(n, g[0]) })
	drop(t, o)
	return out
}

// Add saves nothing; both gradients are the incoming one.
func (t *Tensor) Add(o *Tensor) *Tensor {
	return t.binary("aten::add", "AddBackward0", o, func(*Node) {}, passBoth)
}

func passBoth(n *Node, g *Tensor) []*Tensor {
	out := []*Tensor{g, g}
	for i := range out {
		if !n.needs(i) {
			out[i] = nil
		}
	}
	return out
}

// Sub saves nothing; the second gradient is negated.
func (t *Tensor) Sub(o *Tensor) *Tensor {
	return t.binary("aten::sub", "SubBackward0", o, func(*Node) {}, func(n *Node, g *Tensor) []*Tensor {
		out := passBoth(n, g)
		if out[1] != nil {
			out[1] = t.p.elementwiseGrad("aten::neg", g, 1)
		}
		return out
	})
}

// Mul saves each operand where the other needs a gradient.
func (t *Tensor) Mul(o *Tensor) *Tensor {
	keep := func(n *Node) {
		n.saveIf(n.needs(0), o)
		n.saveIf(n.needs(1), t)
	}
	return t.binary("aten::mul", "MulBackward0", o, keep, func(n *Node, g *Tensor) []*Tensor {
		return t.p.pacedGrads(n, "aten::mul", g, 1, 1, t, o)
	})
}

// Div saves the divisor, and the dividend where the divisor needs a gradient:
// grad / other, and -grad * ((self / other) / other).
func (t *Tensor) Div(o *Tensor) *Tensor {
	keep := func(n *Node) {
		n.save(o)
		n.saveIf(n.needs(1), t)
	}
	return t.binary("aten::div", "DivBackward0", o, keep, func(n *Node, g *Tensor) []*Tensor {
		return t.p.pacedGrads(n, "aten::div", g, 1, 4, t, o)
	})
}

// bothGrads computes the gradients of an operator's self and other, each with its own number of temporaries. Formulas run
// in the alphabetical order of their names: other first.
func (p *Process) bothGrads(n *Node, name string, g *Tensor, self, other int) []*Tensor {
	return p.pacedGrads(n, name, g, self, other, nil, nil)
}

// pacedGrads is bothGrads of an operator whose gradients are products with its operands.
func (p *Process) pacedGrads(n *Node, name string, g *Tensor, self, other int, a, b *Tensor) []*Tensor {
	out := make([]*Tensor, 2)
	if n.needs(1) {
		out[1] = p.pacedGrad(name, g, other, pace(g, g, a))
	}
	if n.needs(0) {
		out[0] = p.pacedGrad(name, g, self, pace(g, g, b))
	}
	return out
}

// AddInPlace is t += o: no memory of its own.
func (t *Tensor) AddInPlace(o *Tensor) *Tensor {
	t.alive()
	p := t.p
	p.op = "aten::add_"
	n := p.record("AddBackward0", t, o)
	p.observePaced(p.op, float64(t.Numel()), t.Bytes()+stored(o), t, pace(t, t, o))
	n.backward(func(g []*Tensor) []*Tensor { return passBoth(n, g[0]) })
	t.rebase(n)
	if o != t {
		drop(o)
	}
	return t
}

// rebase makes an in-place operator's node the tensor's history.
func (t *Tensor) rebase(n *Node) {
	if n == nil {
		return
	}
	old := t.node
	n.out(t)
	if old != nil {
		old.unref()
	}
}

// Dropout zeroes elements with probability p and keeps a mask of one byte each (native_dropout, Dropout.cu);
// p = 0 returns the tensor itself.
func (t *Tensor) Dropout(prob float64) *Tensor {
	t.alive()
	if prob == 0 || t.p.still {
		return t
	}
	p := t.p
	p.op = "aten::native_dropout"
	n := p.record("NativeDropoutBackward0", t)
	mask := p.empty(t.Like(), tensor.Bool)
	out := p.empty(t.Like(), t.DType)
	n.save(mask)
	n.out(out)
	p.observe(p.op, t.DType, float64(t.Numel()), t.Bytes(), out.Bytes()+mask.Bytes())
	n.backward(func(g []*Tensor) []*Tensor { return []*Tensor{p.elementwiseGrad("native_dropout_backward", g[0], 1)} })
	drop(mask, t)
	return out
}

// Mean averages over dimensions; the gradient is expanded, then divided.
func (t *Tensor) Mean(keep bool, dims ...int) *Tensor { return t.reduceOp("aten::mean", keep, 1, dims) }

// Sum adds over dimensions; the gradient is expanded without memory.
func (t *Tensor) Sum(keep bool, dims ...int) *Tensor { return t.reduceOp("aten::sum", keep, 0, dims) }

func (t *Tensor) reduceOp(name string, keep bool, temps int, dims []int) *Tensor {
	t.alive()
	p := t.p
	p.op = name
	if len(dims) == 0 {
		for i := range t.Sizes {
			dims = append(dims, i)
		}
	} else {
		dims = slices.Clone(dims)
	}
	for i, d := range dims {
		dims[i] = t.Axis(d)
	}
	n := p.record("ReduceBackward", t)
	from := t.Sizes
	out := p.reduceDims(t, dims, t.DType)
	kept := out.Layout
	if !keep {
		var sizes []int
		for i, s := range out.Sizes {
			if !slices.Contains(dims, i) {
				sizes = append(sizes, s)
			}
		}
		out.Layout = tensor.Of(sizes...)
	}
	n.out(out)
	n.backward(func(g []*Tensor) []*Tensor {
		wide := g[0].alias(kept.Expand(from))
		if temps == 0 {
			return []*Tensor{wide}
		}
		full := p.empty(tensor.Of(from...), g[0].DType)
		p.observe("aten::div", full.DType, 0, stored(wide), full.Bytes())
		drop(wide)
		return []*Tensor{full}
	})
	drop(t)
	return out
}
