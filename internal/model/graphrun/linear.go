package graphrun

import (
	"maps"
	"slices"

	"github.com/plimsoll/plimsoll/internal/model/eager"
	"github.com/plimsoll/plimsoll/internal/model/exported"
)

// linear is a module that adapters can be put beside.
type linear struct {
	*eager.LinearModule
	weight int // value
}

// findLinears makes linear layers of the modules that a trace names as such, by their paths. A weight may be that of another module (Tied).
func (g *Graph) findLinears() map[string]linear {
	if g.Trace == nil {
		return nil
	}
	byName := map[string]int{}
	for _, at := range g.Inputs {
		byName[g.Values[at].FQN] = at
	}
	out := map[string]linear{}
	for _, path := range g.Trace.Linears {
		name := path + ".weight"
		if tied := g.Trace.Tied[path]; tied != "" {
			name = tied
		}
		at, ok := byName[name]
		if !ok || g.fixed[at] == nil || g.fixed[at].Rank() != 2 {
			continue
		}
		var bias *eager.Tensor
		if b, ok := byName[path+".bias"]; ok {
			bias = g.fixed[b]
		}
		turned := slices.Contains(g.Trace.Turned, path)
		out[path] = linear{g.module(path).AsLinear(g.fixed[at], bias, turned, g.isHead(path)), at}
	}
	return out
}

// isHead tells whether a linear layer gives the model's output, or classifies its sequences: all-linear leaves it out
// (https://github.com/huggingface/peft/blob/v0.18.0/src/peft/tuners/tuners_utils.py, _maybe_include_all_linear_layers).
func (g *Graph) isHead(path string) bool {
	return path == g.Trace.Head || g.Trace.Head == "" && g.Trace.Task == "seq-cls" && (path == "score" || path == "classifier")
}

// adapted is the module that an operator runs in, where it has adapters or a quantized weight and the operator reads that: elsewhere the weight alone is read.
func (o *graphOp) adapted(weight string) (linear, bool) {
	calls := o.node.calls
	if len(calls) == 0 {
		return linear{}, false
	}
	l, ok := o.linears[o.plan.paths[calls[len(calls)-1]]]
	return l, ok && l.Adapted() && o.node.Tensor(weight) == l.weight
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

// findStacked makes adaptable parameters of those that a trace names as such.
func (g *Graph) findStacked() map[int]*eager.Stacked {
	if g.Trace == nil || len(g.Trace.Stacked) == 0 {
		return nil
	}
	byName := map[string]exported.Stack{}
	for _, s := range g.Trace.Stacked {
		byName[s.Name] = s
	}
	out := map[int]*eager.Stacked{}
	for _, at := range g.Inputs {
		s, ok := byName[g.Values[at].FQN]
		if t := g.fixed[at]; ok && t != nil && (t.Rank() == 2 || t.Rank() == 3) {
			out[at] = g.module(parent(s.Name)).AsStacked(t, s.Named, s.Joined)
		}
	}
	return out
}

// addAdapters adds adapters to the parameters that an operator reads, once for the call of their module.
func (r *graphRun) addAdapters(pn *planNode) {
	if len(r.stacked) == 0 {
		return
	}
	for _, a := range pn.Args {
		for _, v := range a.Values {
			if s := r.stacked[v]; s != nil && s.On() && r.sums[v] == nil {
				if r.sums == nil {
					r.sums = map[int]*eager.Tensor{}
				}
				r.sums[v] = s.Adapted().Retain()
				r.vals[v] = r.sums[v]
			}
		}
	}
}

// forgetSums lets parameters plus adapters go when the call of their module is over; "": all of them.
func (r *graphRun) forgetSums(path string) {
	for _, v := range slices.Sorted(maps.Keys(r.sums)) {
		if path == "" || parent(r.Values[v].FQN) == path {
			r.sums[v].Release()
			delete(r.sums, v)
			r.vals[v] = r.fixed[v]
		}
	}
}
