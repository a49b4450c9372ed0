package eager

// Custom is a torch.autograd.Function that saves its argument: forward runs without gradient mode, backward gets
// the incoming gradient and the saved argument.
func Custom(name string, x *Tensor, forward func(x *Tensor) *Tensor, backward func(g, x *Tensor) *Tensor) *Tensor {
	x.alive()
	p := x.p
	n := p.record(name, x)
	n.save(x)
	c := p.Function(x)
	var out *Tensor
	p.NoGrad(func() { out = c.Return(forward(x)) })
	n.out(out)
	layout, dtype := x.Layout, x.DType
	n.backward(func(g []*Tensor) []*Tensor {
		// The node holds the saved storage; formulas need its shape and type only.
		saved := p.newTensor(&storage{p: p, refs: 1, none: true}, layout, dtype).Retain()
		res := backward(g[0], saved)
		saved.Release()
		return []*Tensor{res}
	})
	return out
}

// CustomResult is a result of a torch.autograd.Function whose forward has run, without gradient mode: the same memory with the function as its history. Backward makes a gradient for
// every argument that needs one; what else it makes for itself is not known.
func (p *Process) CustomResult(result *Tensor, arguments, saved []*Tensor) *Tensor {
	result.alive()
	p.op = "autograd.Function"
	n := p.record(p.op, arguments...)
	n.save(saved...)
	out := n.out(result.alias(result.Layout))
	shapes := make([]shaped, len(arguments))
	for i, t := range arguments {
		shapes[i] = shaped{t.Layout, t.DType}
	}
	n.backward(func([]*Tensor) []*Tensor {
		grads := make([]*Tensor, len(shapes))
		for i, s := range shapes {
			if n.needs(i) {
				grads[i] = p.empty(s.layout.Like(), s.dtype)
			}
		}
		return grads
	})
	return out
}

// Baddbmm is torch.baddbmm of a bias without gradient: bias + alpha * a·b. Each gradient is a product and its multiple.
func Baddbmm(bias, a, b *Tensor) *Tensor {
	p := a.p
	lb := p.lower(b)
	la := p.lower(a)
	lbias := p.lower(bias)
	p.op = "aten::baddbmm"
	n := p.record("BaddbmmBackward0", la, lb)
	n.saveIf(n.needs(1), la)
	n.saveIf(n.needs(0), lb)
	out := n.out(p.product("aten::baddbmm", la, lb))
	n.backward(func(g []*Tensor) []*Tensor {
		grads := make([]*Tensor, 2)
		for i, operand := range []*Tensor{la, lb} {
			if n.needs(i) {
				product := p.plainGrad(operand, g[0], g[0].Dim(-1-i))
				grads[i] = p.elementwiseGrad("aten::mul", product, 1)
				drop(product)
			}
		}
		return grads
	})
	drop(lbias, bias, la, a, lb, b)
	return out
}
