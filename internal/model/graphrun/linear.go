package graphrun

import (
	"slices"

	"github.com/plimsoll/plimsoll/internal/model/eager"
)

// linear is a module that adapters can be put beside.
type linear struct {
	*eager.LinearModule
	path string
}

// findLinears makes linear layers of the modules that a trace names as such. One whose weight is another's, or none, is left out: it has no memory of its own.
func (g *Graph) findLinears() map[int]linear {
	if g.Trace == nil {
		return nil
	}
	byName := map[string]int{}
	for _, at := range g.Inputs {
		byName[g.Values[at].FQN] = at
	}
	out := map[int]linear{}
	for _, path := range g.Trace.Linears {
		at, ok := byName[path+".weight"]
		if !ok || g.fixed[at] == nil || g.fixed[at].Rank() != 2 {
			continue
		}
		var bias *eager.Tensor
		if b, ok := byName[path+".bias"]; ok {
			bias = g.fixed[b]
		}
		turned := slices.Contains(g.Trace.Turned, path)
		out[at] = linear{g.module(path).AsLinear(g.fixed[at], bias, turned, path == g.Trace.Head), path}
	}
	return out
}

// adapted is the module whose weight an operator reads, where it has adapters or a quantized weight and the operator runs in its call: elsewhere the weight alone is read.
func (o *graphOp) adapted(weight string) (linear, bool) {
	l, ok := o.linears[o.node.Tensor(weight)]
	calls := o.node.calls
	return l, ok && l.Adapted() && len(calls) > 0 && o.plan.paths[calls[len(calls)-1]] == l.path
}

// linear is F.linear, or the whole call of an nn.Linear that has adapters.
func (o *graphOp) linear() *eager.Tensor {
	if l, ok := o.adapted("weight"); ok {
		return l.Forward(o.self())
	}
	return eager.Linear(o.self(), o.arg("weight"), o.arg("bias"))
}

// addmm is torch.addmm, or the product in a Conv1D that has adapters: its input and result are matrices, which takes as much memory as their views.
func (o *graphOp) addmm() *eager.Tensor {
	if l, ok := o.adapted("mat2"); ok {
		return l.Forward(o.arg("mat1"))
	}
	return eager.Addmm(o.self(), o.arg("mat1"), o.arg("mat2"))
}
