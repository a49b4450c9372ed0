package eager

import "github.com/plimsoll/plimsoll/internal/tensor"

// Moved is an operator that moves elements into a new tensor of some shape and type and whose gradient moves them back:
// roll, flip, pad, repeat, index_put and their like. It saves nothing.
func (t *Tensor) Moved(op string, sizes []int) *Tensor {
	t.alive()
	p := t.p
	p.op = "aten::" + op
	n := p.record(op+"Backward0", t)
	out := n.out(p.emptyOf(t.DType, sizes...))
	p.observe(p.op, t.DType, 0, t.Bytes(), out.Bytes())
	from := t.Sizes
	n.backward(func(g []*Tensor) []*Tensor { return []*Tensor{p.emptyOf(g[0].DType, from...)} })
	drop(t)
	return out
}

// Opaque is an operator nobody has written down: its results are allocated, its floating inputs and results are saved, its backward
// allocates a gradient for every input that needs one. That is what the largest formulas keep, so memory is not underrated.
func (p *Process) Opaque(op string, outs []tensor.Layout, types []tensor.DType, inputs ...*Tensor) []*Tensor {
	p.op = op
	n := p.record(op, inputs...)
	n.save(inputs...)
	results := make([]*Tensor, len(outs))
	for i, l := range outs {
		results[i] = p.empty(l, types[i])
		n.save(results[i])
		n.out(results[i])
	}
	n.backward(func([]*Tensor) []*Tensor {
		grads := make([]*Tensor, len(inputs))
		for i, t := range inputs {
			if t != nil && n.needs(i) {
				grads[i] = p.emptyOf(t.DType, t.Sizes...)
			}
		}
		return grads
	})
	drop(inputs...)
	return results
}
