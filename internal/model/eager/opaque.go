package eager

import "github.com/plimsoll/plimsoll/internal/model/tensor"

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
	n.backward(func(g []*Tensor) []*Tensor {
		p.observe(p.op, g[0].DType, 0, g[0].Bytes(), t.Bytes())
		return []*Tensor{p.emptyOf(g[0].DType, from...)}
	})
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
	p.opaqueWork(inputs, results)
	n.backward(func([]*Tensor) []*Tensor {
		p.opaqueWork(inputs, results)
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

// Formula is an operator by what its node saves.
type Formula struct {
	Op            string
	Inputs, Saved []*Tensor
	Layouts       []tensor.Layout // of the results
	Types         []tensor.DType
	Keeps         []bool  // results that are saved
	Target        *Tensor // written into, instead of results; its history becomes this operator
}

// Formula runs such an operator; backward makes a gradient for every input that needs one.
func (p *Process) Formula(f Formula) []*Tensor {
	p.op = f.Op
	n := p.record(f.Op, f.Inputs...)
	n.save(f.Saved...)
	var results []*Tensor
	for i, l := range f.Layouts {
		t := p.empty(l, f.Types[i])
		if f.Keeps[i] {
			n.save(t)
		}
		results = append(results, n.out(t))
	}
	if f.Target != nil {
		results = []*Tensor{f.Inputs[0]}
		f.Target.rebase(n)
	}
	p.opaqueWork(f.Inputs, results)
	shapes := make([]shaped, len(f.Inputs))
	for i, t := range f.Inputs {
		shapes[i] = shaped{t.Layout, t.DType}
	}
	n.backward(func([]*Tensor) []*Tensor {
		p.opaqueWork(f.Inputs, results)
		grads := make([]*Tensor, len(shapes))
		for i, s := range shapes {
			if n.needs(i) {
				grads[i] = p.emptyOf(s.dtype, s.layout.Sizes...)
			}
		}
		return grads
	})
	if f.Target != nil {
		drop(f.Inputs[1:]...)
	} else {
		drop(f.Inputs...)
	}
	return results
}

// ViewAs is a view of any sizes, strides and type over the same storage. Its gradient is a view, or full: zeros of the input's size that the incoming one is
// added to.
func (t *Tensor) ViewAs(op string, l tensor.Layout, d tensor.DType, full bool) *Tensor {
	p, from, was := t.p, t.Layout, t.DType
	out := t.viewOp(op, l, func(g *Tensor) *Tensor {
		if full {
			return p.placed(g, from)
		}
		back := g.alias(tensor.Of(from.Sizes...))
		if g.Bytes() == t.Bytes() { // else a part of a complex number, whose gradient is widened where it arrives
			back.DType = was
		}
		return back
	})
	out.DType = d
	if out.node != nil {
		out.node.outputs[out.output].dtype = d
	}
	return out
}

// opaqueWork takes an unknown operator to read its inputs and write its results once, in either direction.
func (p *Process) opaqueWork(inputs, results []*Tensor) {
	w := Work{Op: p.op, DType: tensor.Float32, Result: tensor.Float32, Kernels: 1}
	for _, t := range inputs {
		if t != nil {
			w.Read += t.Bytes()
		}
	}
	for _, t := range results {
		w.Written += t.Bytes()
		w.DType, w.Result = t.DType, t.DType
	}
	p.work(w)
}
