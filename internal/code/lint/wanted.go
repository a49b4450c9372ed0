package lint

import (
	"slices"
	"strings"

	"github.com/plimsoll/plimsoll/internal/code/flow"
	"github.com/plimsoll/plimsoll/internal/code/pysource"
)

// graphWanted tells whether what a model call gives is wanted with its graph although the model is in eval mode: autograd was switched on for it in so many
// words, it is kept where a later method may back-propagate it, or a function defined here does.
func (p *pass) graphWanted(s *flow.Scope, c *flow.Call) bool {
	return switchedOn(c.Ctx) || p.keptForLater(s, c) || backwardInClosure(s, c)
}

// switchedOn tells whether a place stands in a block that switches autograd on.
func switchedOn(ctx *flow.Context) bool {
	return ctx.Within(func(x *flow.Context) bool {
		return x.With != nil && flow.Last(x.Name) == "enable_grad"
	})
}

// keptForLater tells whether what a call gives is put, with its graph, into an object that outlives the function: the log-probabilities of a policy. A
// function that evaluates by its name keeps results.
func (p *pass) keptForLater(s *flow.Scope, c *flow.Call) bool {
	if s.Func == nil || evaluationName(s.Func.Name) {
		return false
	}
	outlives := func(key string) bool {
		first, _, part := strings.Cut(key, ".")
		return part || hasParam(s.Func.Node, first)
	}
	var names []string
	for _, b := range s.Binds {
		if b.Expr != nil && around(b.Expr, c.Node) {
			names = append(names, p.derivedFrom(s, b.Name)...)
		}
	}
	from := func(v flow.Value, x pysource.Expr) bool {
		return v.Shares(c.Result) || x != nil && v.Kind != flow.Scalar && mentionsAny(x, names) && !words(x, func(w string) bool { return cutsGraph(w) || w == "data" || w == "float" || w == "int" })
	}
	return slices.ContainsFunc(s.Stores, func(st *flow.Store) bool { return outlives(st.Base) && from(st.Value, st.Expr) }) ||
		slices.ContainsFunc(s.Binds, func(b *flow.Bind) bool { return strings.Contains(b.Name, ".") && from(b.Value, b.Expr) })
}

// backwardInClosure tells whether a function defined in the same body back-propagates something computed from what a call gives.
func backwardInClosure(s *flow.Scope, c *flow.Call) bool {
	var names []string
	for _, b := range s.Binds {
		if b.Value.Shares(c.Result) {
			names = append(names, b.Name)
		}
	}
	found := false
	pysource.WalkBody(s.Body, func(n pysource.Node) bool {
		if fn, ok := n.(*pysource.Function); ok && !found {
			found = bodyHas(fn.Body, func(w string) bool { return w == "backward" }) && bodyHas(fn.Body, func(w string) bool { return slices.Contains(names, w) })
			return false
		}
		return !found
	})
	return found
}

// gradientPackages compute gradients with respect to inputs, or take steps through gradients, while a model is evaluated.
var gradientPackages = []string{"torchattacks", "foolbox", "advertorch", "autoattack", "art", "cleverhans", "captum", "pytorch_grad_cam", "shap", "higher", "learn2learn", "torchmeta", "functorch", "torchopt", "schnetpack", "torchani", "nequip", "mace"}

// importsGradients tells whether a file uses one of them.
func (p *pass) importsGradients() bool { return slices.ContainsFunc(gradientPackages, p.imports) }

// ingredientsUsed tells whether something the loss was computed from goes, by its name, into a call after the backward: what that does with it is not seen.
func (p *pass) ingredientsUsed(s *flow.Scope, b backward, l *flow.Loop) bool {
	names := map[string]bool{}
	collect := func(x pysource.Node) {
		pysource.Walk(x, func(n pysource.Node) bool {
			if name, ok := n.(*pysource.Name); ok {
				names[name.ID] = true
			}
			return true
		})
	}
	collect(b.call.Node)
	var made []string
	for range lookBack {
		for _, bind := range s.Binds {
			if _, target := bind.Node.(*pysource.For); !names[bind.Name] || target || bind.Expr == nil || bind.Order > b.call.Order || !bind.Ctx.Inside(l) {
				continue
			}
			collect(bind.Expr)
			if bind.Name != flow.Key(b.call.Recv) {
				made = append(made, bind.Name)
			}
		}
	}
	return slices.ContainsFunc(s.Calls, func(c *flow.Call) bool {
		if c.Order <= b.call.Order || !c.Ctx.Inside(l) || c.Callee.Kind != flow.Unknown || harmless(c) && c.Method != "update" || strings.HasPrefix(c.Name, "torch.") || c.Recv == nil || c.RecvValue.IsTensor() || c.RecvValue.Kind == flow.Container {
			return false
		}
		return slices.ContainsFunc(c.Node.Args, func(a pysource.Arg) bool { return slices.Contains(made, flow.Key(a.Value)) })
	})
}

// throughHooks tells whether a model runs for what hooks see of it, and the function gives something back: that may be wanted with its graph.
func throughHooks(s *flow.Scope, c *flow.Call) bool {
	dropped := !slices.ContainsFunc(s.Binds, func(b *flow.Bind) bool { return b.Expr != nil && around(b.Expr, c.Node) })
	returns := slices.ContainsFunc(s.Returns, func(r *flow.Exit) bool { return r.X != nil && r.Value.Kind == flow.Unknown })
	return s.Func != nil && dropped && returns && !handsOn(c) && slices.ContainsFunc(s.Calls, func(o *flow.Call) bool { return o.Order < c.Order && strings.Contains(o.Method, "hook") })
}

// leavesAfterAll tells whether every backward in a loop is followed by its end: no state goes from one to the next.
func leavesAfterAll(backs []backward, l *flow.Loop) bool {
	return !slices.ContainsFunc(backs, func(b backward) bool {
		return b.call.Ctx.InnermostLoop() == l && !(len(b.call.Ctx.Branches(l)) > 0 && leavesAfter(b.call, l))
	})
}
