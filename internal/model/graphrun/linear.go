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

// conv is a convolution that adapters can be put beside.
type conv struct {
	*eager.ConvModule
	weight int
}

// table is a table of embeddings that adapters can be put beside.
type table struct {
	*eager.EmbeddingModule
	weight int
}

// findAdaptable makes modules that adapters can be put beside of those that a trace names as such, by their paths.
func (g *Graph) findAdaptable() {
	byName := map[string]int{}
	for _, at := range g.Inputs {
		byName[g.Values[at].FQN] = at
	}
	parameter := func(name string) *eager.Tensor {
		if at, ok := byName[name]; ok {
			return g.fixed[at]
		}
		return nil
	}
	g.linears, g.convs, g.tables = map[string]linear{}, map[string]conv{}, map[string]table{}
	for _, path := range g.Trace.Linears {
		name := path + ".weight"
		if tied := g.Trace.Tied[path]; tied != "" { // the weight of another module
			name = tied
		}
		if weight := parameter(name); weight != nil && weight.Rank() == 2 {
			turned := slices.Contains(g.Trace.Turned, path)
			g.linears[path] = linear{g.module(path).AsLinear(weight, parameter(path+".bias"), turned, g.isHead(path)), byName[name]}
		}
	}
	for _, m := range g.Trace.Convs {
		if weight := parameter(m.Name + ".weight"); weight != nil && weight.Rank() > 2 {
			g.convs[m.Name] = conv{g.module(m.Name).AsConv(weight, parameter(m.Name+".bias"), m.Groups), byName[m.Name+".weight"]}
		}
	}
	for _, m := range g.Trace.Tables {
		if weight := parameter(m.Name + ".weight"); weight != nil && weight.Rank() == 2 {
			g.tables[m.Name] = table{g.module(m.Name).AsTable(weight, m.Scaled), byName[m.Name+".weight"]}
		}
	}
	g.stacked = g.findStacked()
}

// isHead tells whether a linear layer gives the model's output, or classifies its sequences: all-linear leaves it out
// (https://github.com/huggingface/peft/blob/v0.18.0/src/peft/tuners/tuners_utils.py, _maybe_include_all_linear_layers).
func (g *Graph) isHead(path string) bool {
	return path == g.Trace.Head || g.Trace.Head == "" && g.Trace.Task == "seq-cls" && (path == "score" || path == "classifier")
}

// within is the path of the module that an operator runs in.
func (o *graphOp) within() string {
	calls := o.node.calls
	if len(calls) == 0 {
		return ""
	}
	return o.plan.paths[calls[len(calls)-1]]
}

// adapted is the module that an operator runs in, where it has adapters or a quantized weight and the operator reads that: elsewhere the weight alone is read.
func (o *graphOp) adapted(weight string) (linear, bool) {
	l, ok := o.linears[o.within()]
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

// convolve is F.convNd, or the whole call of an nn.ConvNd that has adapters.
func (o *graphOp) convolve(x *eager.Tensor, args eager.Conv) *eager.Tensor {
	args.Plain = o.node.NoCuDNN
	if l, ok := o.convs[o.within()]; ok && l.Adapted() && o.node.Tensor("weight") == l.weight {
		return l.Call(x, args)
	}
	return eager.Convolution(x, o.arg("weight"), o.arg("bias"), args)
}

// embedding is F.embedding, or the whole call of an nn.Embedding that has adapters.
func (o *graphOp) embedding() *eager.Tensor {
	if e, ok := o.tables[o.within()]; ok && e.Adapted() && o.node.Tensor("weight") == e.weight {
		return e.Call(o.arg("indices"))
	}
	return eager.Embedding(o.arg("indices"), o.arg("weight"))
}

// findStacked makes adaptable parameters of those that a trace names as such.
func (g *Graph) findStacked() map[int]*eager.Stacked {
	if len(g.Trace.Stacked) == 0 {
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
