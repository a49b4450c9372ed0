package lint

import (
	"slices"
	"strings"

	"github.com/plimsoll/plimsoll/internal/code/flow"
	"github.com/plimsoll/plimsoll/internal/code/pysource"
)

// hiddenState is LM004.
func hiddenState(p *pass) {
	for _, s := range p.m.Scopes {
		backs := p.backwards(s)
		for _, b := range s.Binds {
			c, ok := b.Expr.(*pysource.Call)
			loop := b.Ctx.InnermostLoop()
			if !ok || loop == nil || !b.Value.HasGraph() || !carries(s, b, c) || !anyBackward(backs, loop) {
				continue
			}
			if p.cutElsewhere(s, b, loop) || p.reportedAt(b.Node) || leavesAfterAll(backs, loop) || perBatch(s, b.Name, loop) {
				continue
			}
			severity := Warning // without retain_graph the second backward fails, so that something out of sight must cut the state in a program that runs
			if retainedIn(backs, loop) && p.keepsState(callSite(s, c)) {
				severity = Error
			}
			p.report(b.Node, severity,
				"`"+b.Name+"` goes from one batch into the next with its graph: backward reaches back through every earlier batch, or fails with \"backward through the graph a second time\"",
				"cut it after each batch: `"+b.Name+" = "+b.Name+".detach()` (of a tuple or a list, each tensor in it), not retain_graph=True; where gradients should reach back through time, add the losses up and call backward() once")
			p.explains(loop)
		}
	}
}

// keepsState tells whether the module that gives the state back certainly leaves its graph on it: one of PyTorch's, or one of this file whose forward
// has nothing that cuts it.
func (p *pass) keepsState(c *flow.Call) bool {
	class := c.Callee.Class
	if strings.HasPrefix(class, "torch.nn.") {
		return true
	}
	own := p.m.Classes[class]
	if own == nil || own.Methods["forward"] == nil {
		return false
	}
	return !bodyHas(own.Methods["forward"].Node.Body, func(w string) bool { return w == "detach" || w == "detach_" || w == "data" || w == "no_grad" })
}

// carries tells whether a call takes the state it gives back: out, h = rnn(x, h).
func carries(s *flow.Scope, b *flow.Bind, c *pysource.Call) bool {
	site := callSite(s, c)
	if site == nil || site.Callee.Kind != flow.Model && !(site.RecvValue.Kind == flow.Model && site.Method == "forward") {
		return false
	}
	assign, ok := b.Node.(*pysource.Assign)
	if !ok {
		return false
	}
	_, unpacked := assign.Targets[0].(*pysource.Sequence)
	if !unpacked && !stateName(b.Name) {
		return false
	}
	for _, a := range c.Args {
		parts := []pysource.Expr{a.Value}
		if pair, ok := a.Value.(*pysource.Sequence); ok {
			parts = pair.Items
		}
		for _, x := range parts {
			if flow.Key(x) == b.Name {
				return true
			}
		}
	}
	return false
}

func stateName(name string) bool {
	for _, w := range tokens(flow.Last(name)) {
		if oneOf(w, "h", "hx", "hidden", "state", "states", "mem", "mems", "memory", "hn", "hc") {
			return true
		}
	}
	return false
}

func callSite(s *flow.Scope, c *pysource.Call) *flow.Call {
	for _, site := range s.Calls {
		if site.Node == c {
			return site
		}
	}
	return nil
}

func anyBackward(backs []backward, l *flow.Loop) bool {
	for _, b := range backs {
		if b.call.Ctx.InnermostLoop() == l {
			return true
		}
	}
	return false
}

func retainedIn(backs []backward, l *flow.Loop) bool {
	return slices.ContainsFunc(backs, func(b backward) bool { return b.retain && b.call.Ctx.InnermostLoop() == l })
}

// cutElsewhere tells whether the loop gives the state a new start.
func (p *pass) cutElsewhere(s *flow.Scope, b *flow.Bind, l *flow.Loop) bool {
	for _, other := range s.Binds {
		if other != b && other.Name == b.Name && other.Node != b.Node && other.Ctx.Inside(l) {
			if x, ok := other.Expr.(*pysource.Call); ok && oneOf(flow.Last(p.m.Dotted(x.Func)), "to", "cuda") {
				continue
			}
			return true
		}
	}
	for _, c := range s.Calls {
		if c.Recv != nil && c.Ctx.Inside(l) && flow.Key(c.Recv) == b.Name && c.Method == "detach_" {
			return true
		}
		if c.Ctx.Inside(l) && c.Node != b.Expr && callMentionsDetach(c, b.Name) {
			return true
		}
	}
	if detachedEach(l, b.Name) {
		return true
	}
	// A name that is not bound before the loop cannot bring anything from an earlier batch.
	for _, other := range s.Binds {
		if other.Name == b.Name && other.Order < b.Order && !other.Ctx.Inside(l) {
			return false
		}
	}
	return s.Func == nil || !hasParam(s.Func.Node, b.Name)
}

// detachedEach tells whether a loop goes through the parts of a state and detaches each: for h in state: h.detach_(), or the same in a comprehension.
func detachedEach(l *flow.Loop, name string) bool {
	found := false
	cuts := func(w string) bool { return w == "detach_" } // detach() gives another tensor, which is seen where it is bound
	pysource.WalkBody(l.Body, func(n pysource.Node) bool {
		switch n := n.(type) {
		case *pysource.For:
			found = found || mentions(n.Iter, name) && bodyHas(n.Body, cuts)
		case *pysource.Comprehension:
			over := slices.ContainsFunc(n.Clauses, func(c pysource.Clause) bool { return c.Iter != nil && mentions(c.Iter, name) })
			found = found || over && words(n.Value, cuts)
		}
		return !found
	})
	return found
}

func callMentionsDetach(c *flow.Call, name string) bool {
	return oneOf(c.Method, "detach", "detach_", "repackage_hidden", "detach_hidden", "repackage") && (mentions(c.Node, name) || c.Recv != nil && mentions(c.Recv, name))
}
