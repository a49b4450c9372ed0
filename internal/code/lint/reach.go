package lint

import (
	"slices"
	"strings"

	"github.com/plimsoll/plimsoll/internal/code/flow"
	"github.com/plimsoll/plimsoll/internal/code/pysource"
)

// mayTrainOn tells whether what a loop collects may reach a loss afterwards, in an evaluation aside: a loss is computed from it, or from something that
// comes from it through other loops, sums and comprehensions, or such a thing is returned. What a backward has gone through already is returned for the log.
func (p *pass) mayTrainOn(s *flow.Scope, st *flow.Store, backed bool) bool {
	if evaluates(s) {
		return false
	}
	names := reachedFrom(s, st)
	if !backed && slices.ContainsFunc(s.Returns, func(r *flow.Exit) bool {
		return r.X != nil && r.Order > st.Order && mentionsAny(r.X, names) && !words(r.X, cutsGraph)
	}) && !p.onlyStatistics(s, st) {
		return true
	}
	return slices.ContainsFunc(s.Calls, func(c *flow.Call) bool {
		return c.Order > st.Order && !around(c.Node, st.Node) && !around(st.Node, c.Node) && takesLoss(c) && mentionsAny(c.Node, names)
	})
}

// takesLoss tells whether a call computes a loss or takes gradients.
func takesLoss(c *flow.Call) bool {
	name := strings.ToLower(c.Method)
	return c.Callee.Kind == flow.Criterion || strings.Contains(name, "loss") || strings.Contains(name, "cross_entropy") || strings.Contains(name, "criterion") ||
		name == "backward" || strings.HasPrefix(c.Name, "torch.autograd.")
}

// reachedFrom lists a collection and the names that are computed from it after it was filled, with their graph: by assignments, by sums and lists, by loops over it.
func reachedFrom(s *flow.Scope, st *flow.Store) []string {
	names := []string{st.Base}
	add := func(name string) {
		if name != "" && len(names) < maxDerived && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	live := func(x pysource.Expr) bool {
		return x != nil && mentionsAny(x, names) && !words(x, func(w string) bool { return cutsGraph(w) || oneOf(w, "data", "len", "float", "int") })
	}
	for before := 0; before != len(names); {
		before = len(names)
		for _, l := range s.Loops {
			if l.Iter != nil && l.Node.Pos().Start > st.Node.Pos().Start && mentionsAny(l.Iter, names) {
				for _, t := range l.Targets {
					add(t)
				}
			}
		}
		for _, b := range s.Binds {
			if b.Order > st.Order && b.Node != st.Node && live(b.Expr) {
				add(b.Name)
			}
		}
		for _, o := range s.Stores {
			if o.Order > st.Order && o.Node != st.Node && live(o.Expr) {
				add(o.Base)
			}
		}
	}
	return names
}

// differentiatesElsewhere tells whether the file takes gradients by other ways than backward: of what, is not followed.
func (p *pass) differentiatesElsewhere() bool {
	return p.importsGradients() || p.sourceHas("autograd.grad", "torch.func", "create_graph")
}

// tensorMethods are methods that strings, numbers and lists do not have.
var tensorMethods = []string{
	"argmax", "backward", "detach", "cpu", "cuda", "numpy", "size", "dim", "view", "reshape", "mean", "max", "sum", "squeeze", "unsqueeze",
	"sigmoid", "softmax", "topk", "permute", "transpose", "item", "data", "shape",
}

// usedAsTensor tells whether an expression is a tensor, or holds some, by its name or by what is done with it elsewhere in a body: a loss is computed from it,
// PyTorch takes it, or a tensor's method is called on it or on a part of it.
func usedAsTensor(s *flow.Scope, x pysource.Expr) bool {
	key := flow.Key(x)
	if key == "" {
		return true // an operation, or a call: it was computed
	}
	if flow.PromisesOutput(flow.Last(key)) {
		return true
	}
	if slices.ContainsFunc(s.Calls, func(c *flow.Call) bool {
		if c.Recv != nil && (flow.Key(c.Recv) == key || partKey(c.Recv) == key) && slices.Contains(tensorMethods, c.Method) {
			return true
		}
		takes := c.Callee.Kind == flow.Criterion || strings.HasPrefix(c.Name, "torch.")
		return takes && slices.ContainsFunc(c.Node.Args, func(a pysource.Arg) bool { return flow.Key(a.Value) == key })
	}) {
		return true
	}
	found := false
	pysource.WalkBody(s.Body, func(n pysource.Node) bool {
		a, ok := n.(*pysource.Attribute)
		found = found || ok && (a.Attr == "shape" || a.Attr == "data") && flow.Key(a.X) == key
		return !found
	})
	return found
}

// partKey is what an element with a name is taken from: output of output["loss"].
func partKey(x pysource.Expr) string {
	part, ok := x.(*pysource.Subscript)
	if !ok {
		return ""
	}
	if _, text := part.Index.(*pysource.String); !text {
		return ""
	}
	return flow.Key(part.X)
}
