package lint

import (
	"slices"
	"strings"

	"github.com/plimsoll/plimsoll/internal/code/flow"
	"github.com/plimsoll/plimsoll/internal/code/pysource"
)

// maxCallers bounds how many callers up a result is followed.
const maxCallers = 4

// trainedByCaller tells whether a caller in the file back-propagates what a function gives: without a graph the training would end there.
func (p *pass) trainedByCaller(s *flow.Scope, depth int) bool {
	if s.Func == nil || depth == 0 || len(s.Returns) == 0 {
		return false
	}
	for _, c := range p.m.CallSites(s.Func) {
		for _, b := range p.backwards(c.Scope) {
			if b.call.Node != c.Node && (b.value.Shares(c.Result) || p.startsFrom(b, c)) {
				return true
			}
		}
		if handsOn(c) && p.trainedByCaller(c.Scope, depth-1) {
			return true
		}
	}
	return false
}

// startsFrom tells whether a backward starts from what a call gave: written around it, or through names that it was bound to.
func (p *pass) startsFrom(b backward, c *flow.Call) bool {
	if around(b.call.Node, c.Node) {
		return true
	}
	for _, bind := range c.Scope.Binds {
		if bind.Expr == nil || !around(bind.Expr, c.Node) || bind.Order > b.call.Order || reboundBetween(c.Scope, bind, b.call.Order) {
			continue
		}
		if mentionsAny(b.call.Node, p.derivedFrom(c.Scope, bind.Name)) {
			return true
		}
	}
	return false
}

func reboundBetween(s *flow.Scope, bind *flow.Bind, until int) bool {
	for _, o := range s.Binds {
		if o.Name == bind.Name && o.Order > bind.Order && o.Order < until && o.Expr != nil && !mentions(o.Expr, bind.Name) {
			return true
		}
	}
	return false
}

// handsOn tells whether a function returns what a call in it gives.
func handsOn(c *flow.Call) bool {
	if returned(c.Scope, c) {
		return true
	}
	for _, r := range c.Scope.Returns {
		if r.X != nil && around(r.X, c.Node) {
			return true
		}
	}
	return false
}

func around(outer, inner pysource.Node) bool {
	o, i := outer.Pos(), inner.Pos()
	return o.Start <= i.Start && i.End <= o.End
}

// trainingStep tells whether a method is what a framework calls for one batch of training: it runs the backward on what the method returns.
func trainingStep(fn *flow.Function) bool {
	return fn != nil && fn.Class != nil && oneOf(fn.Name, "training_step", "train_step", "training_step_end", "compute_loss")
}

// TrainableElsewhere tells whether the function around a model call returns something with a graph, and nobody in the file calls it: somebody else
// may back-propagate it, unless it evaluates a whole loader by its name.
func TrainableElsewhere(s *flow.Scope, c *flow.Call) bool {
	if trainingStep(s.Func) {
		return true
	}
	if s.Func == nil || len(s.Module.CallSites(s.Func)) > 0 || evaluationName(s.Func.Name) && inLoaderLoop(c) {
		return false
	}
	return slices.ContainsFunc(s.Returns, func(r *flow.Exit) bool {
		return r.Value.HasGraph() || r.X != nil && !evaluationName(s.Func.Name) && words(r.X, isLoss)
	})
}

func isLoss(w string) bool { return oneOf(w, "loss", "total_loss", "train_loss") }

// underNoGrad is the advice to switch autograd off, in the words of a file that may not know the name torch, or know it by another.
func (p *pass) underNoGrad() string {
	name := ""
	for local, origin := range p.m.Imports {
		if origin == "torch" && (name == "" || local == "torch" || local < name && name != "torch") {
			name = local
		}
	}
	if name == "" {
		return "import torch and wrap it in `with torch.no_grad():`"
	}
	return "wrap it in `with " + name + ".no_grad():`"
}

// knownBases are packages of which it is known whether they call a method with autograd on, and those of Python itself.
var knownBases = []string{"torch", "torchvision", "pytorch_lightning", "lightning", "transformers", "abc", "typing", "enum", "collections", "dataclasses", "unittest", "threading", "multiprocessing"}

// library is the class of another package that a method's class derives from, where nothing in the file calls the method: the package may, in whatever
// grad mode.
func (p *pass) library(s *flow.Scope) string {
	if s.Func == nil || s.Func.Class == nil || len(p.m.CallSites(s.Func)) > 0 || strings.HasPrefix(s.Func.Name, "_") {
		return ""
	}
	for _, base := range s.Func.Class.Foreign {
		pkg, _, imported := strings.Cut(base, ".")
		if imported && pkg != "" && !slices.Contains(knownBases, pkg) {
			return "`" + flow.Last(base) + "` of " + pkg
		}
	}
	return ""
}

// handsGraph tells whether a function gives back something with a graph: whoever gets it may back-propagate it, unless it evaluates a whole loader by
// its name.
func handsGraph(s *flow.Scope, c *flow.Call) bool {
	return s.Func != nil && !(evaluationName(s.Func.Name) && inLoaderLoop(c)) && slices.ContainsFunc(s.Returns, func(r *flow.Exit) bool { return r.Value.HasGraph() })
}

// unused tells whether a program defines a function and never speaks of it again.
func (p *pass) unused(fn *flow.Function) bool {
	if fn == nil || !p.sourceHas("__main__") {
		return false
	}
	said := false
	pysource.WalkBody(p.m.File.Body, func(n pysource.Node) bool {
		switch n := n.(type) {
		case *pysource.Name:
			said = said || n.ID == fn.Name
		case *pysource.Attribute:
			said = said || n.Attr == fn.Name
		case *pysource.String:
			said = said || strings.Contains(n.Value, fn.Name)
		}
		return !said
	})
	return !said
}
