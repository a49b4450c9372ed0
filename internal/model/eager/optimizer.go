package eager

import (
	"slices"

	"github.com/plimsoll/plimsoll/internal/memory/tape"
	"github.com/plimsoll/plimsoll/internal/model/tensor"
	"github.com/plimsoll/plimsoll/internal/torch"
)

// optimizer is a torch.optim optimizer: what it keeps for each parameter and what a step holds for a moment.
type optimizer struct {
	p      *Process
	params []*Tensor
	kind   torch.Algorithm
	how    torch.Step
	form   torch.Form
	shared []*Tensor
	state  [][]*Tensor // by parameter; nil before the first step
}

func newOptimizer(p *Process, name torch.Optimizer, params []*Tensor) (*optimizer, error) {
	kind, ok := name.Algorithm()
	if !ok {
		_, err := torch.ParseOptimizer(string(name))
		return nil, err
	}
	o := &optimizer{p: p, params: params, state: make([][]*Tensor, len(params)), kind: kind, how: kind.Steps[name.Form()], form: name.Form()}
	if kind.Early {
		o.states(everyOne(len(params)))
	}
	o.sharedState()
	return o, nil
}

// zeroGrad sets gradients to None (set_to_none, the default).
func (o *optimizer) zeroGrad() {
	for _, t := range o.params {
		if t.grad != nil {
			t.grad.Release()
			t.grad = nil
		}
	}
}

func (o *optimizer) step() {
	o.p.grad = false
	which := o.active()
	if o.how.Holds.Rule != torch.Projected { // which makes the state of a parameter in its turn
		o.states(which)
	}
	rules[o.how.Holds.Rule](o, which)
	o.p.grad = true
}

// stepOf is the step of an optimizer that has one parameter, in backward: optimizer.step(), then optimizer.zero_grad()
// (https://docs.pytorch.org/tutorials/intermediate/optimizer_step_in_backward_tutorial.html).
func (o *optimizer) stepOf(leaf *Tensor) {
	i := slices.Index(o.params, leaf)
	if i < 0 {
		return
	}
	o.states([]int{i})
	rules[o.how.Holds.Rule](o, []int{i})
	leaf.grad.Release()
	leaf.grad = nil
}

// active lists the parameters that have gradients.
func (o *optimizer) active() []int {
	var out []int
	for i, t := range o.params {
		if t.grad != nil {
			out = append(out, i)
		}
	}
	return out
}

// keep makes a state tensor like a parameter (zeros_like).
func (o *optimizer) keep(i int, name string) {
	t := o.params[i]
	o.keepOf(i, name, t.DType, t.Sizes...)
}

func (o *optimizer) keepOf(i int, name string, d tensor.DType, sizes ...int) {
	p := o.p
	was := p.category
	p.category, p.op = tape.Optimizer, name
	p.enter(p.siteOf(o.params[i].Name))
	o.state[i] = append(o.state[i], p.emptyOf(d, sizes...).Retain())
	p.pop()
	p.category = was
}

// temporary makes a list of tensors like the gradients of some parameters (a torch._foreach function's result).
func (o *optimizer) temporary(name string, which []int) []*Tensor {
	p := o.p
	was := p.category
	p.category, p.op = tape.Optimizer, name
	out := make([]*Tensor, len(which))
	for k, i := range which {
		out[k] = p.empty(o.params[i].Layout, o.params[i].DType)
	}
	p.category = was
	return out
}
