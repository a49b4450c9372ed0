package flow

import (
	"strings"

	"github.com/plimsoll/plimsoll/internal/code/pysource"
)

func (f *follower) forStmt(s *pysource.For) {
	iter := f.eval(s.Iter)
	loop := &Loop{Node: s, Iter: s.Iter, Body: s.Body, Targets: targets(s.Target)}
	switch {
	case iter.Kind == Loader:
		loop.Kind = LoaderLoop
	case f.isRange(s.Iter):
		loop.Kind = RangeLoop
		if f.overData(s.Iter) {
			loop.Kind = LoaderLoop
		}
		if loop.Kind == RangeLoop && len(loop.Targets) > 0 && anyOf(loop.Targets[0], "epoch", "ep", "epochs", "e", "_epoch") {
			loop.Kind = EpochLoop
		}
	}
	f.loop(loop, func() { f.bindLoop(s.Target, s.Iter, iter, loop.Kind, s) }, s.Else)
}

// bindLoop gives a loop's variables what they hold: counters of enumerate and keys of items() are no tensors, and zip gives each its own.
func (f *follower) bindLoop(target, iter pysource.Expr, v Value, kind LoopKind, s pysource.Stmt) {
	seq, ok := target.(*pysource.Sequence)
	c, isCall := unwrapped(iter)
	if !ok || !isCall {
		f.bindTarget(target, element(v, kind), s)
		return
	}
	switch name := Last(Key(c.Func)); {
	case name == "enumerate" && len(seq.Items) == 2 && len(c.Args) > 0:
		f.bindTarget(seq.Items[0], scalar(), s)
		f.bindLoop(seq.Items[1], c.Args[0].Value, v, kind, s)
	case (name == "items" || name == "") && len(seq.Items) == 2 && len(c.Args) == 0 && calledAttr(c) == "items":
		f.bindTarget(seq.Items[0], scalar(), s)
		f.bindTarget(seq.Items[1], element(v, kind), s)
	case name == "zip" && len(seq.Items) == len(c.Args):
		for i, item := range seq.Items {
			each := f.quiet(c.Args[i].Value)
			part := kind
			if each.Kind != Loader && kind == LoaderLoop {
				part = OtherLoop
			}
			f.bindTarget(item, element(each, part), s)
		}
	default:
		f.bindTarget(target, element(v, kind), s)
	}
}

func calledAttr(c *pysource.Call) string {
	if a, ok := c.Func.(*pysource.Attribute); ok {
		return a.Attr
	}
	return ""
}

// unwrapped is the call a loop runs over, without a progress bar around it.
func unwrapped(x pysource.Expr) (*pysource.Call, bool) {
	for range 4 {
		c, ok := x.(*pysource.Call)
		if !ok {
			return nil, false
		}
		if !anyOf(Last(Key(c.Func)), "tqdm", "track", "progress_bar", "list") || len(c.Args) == 0 {
			return c, true
		}
		x = c.Args[0].Value
	}
	return nil, false
}

func (f *follower) isRange(x pysource.Expr) bool {
	c, ok := x.(*pysource.Call)
	if !ok {
		return false
	}
	switch Last(f.m.Dotted(c.Func)) {
	case "range", "trange":
		return true
	case "tqdm", "enumerate", "track":
		return len(c.Args) > 0 && f.isRange(c.Args[0].Value)
	}
	return false
}

// overData recognises range(len(loader)) and range(len(dataset)).
func (f *follower) overData(x pysource.Expr) bool {
	found := false
	pysource.Walk(x, func(n pysource.Node) bool {
		c, ok := n.(*pysource.Call)
		if ok && Key(c.Func) == "len" && len(c.Args) == 1 && !found {
			v := f.quiet(c.Args[0].Value)
			found = v.Kind == Loader || v.Kind == Dataset || strings.HasSuffix(strings.ToLower(Last(Key(c.Args[0].Value))), "dataset")
		}
		return !found
	})
	return found
}

// element is what a loop variable holds.
func element(iter Value, kind LoopKind) Value {
	switch {
	case kind == LoaderLoop && iter.Kind == Scalar:
		return scalar() // range(len(loader))
	case kind == LoaderLoop:
		return Value{Kind: Batch}
	case kind == RangeLoop || kind == EpochLoop:
		return scalar()
	case iter.Kind == Container || iter.IsTensor():
		v := iter.whole()
		if v.Kind == Container {
			v.Kind = Unknown
			if v.HasGraph() {
				v.Kind = Tensor
			}
		}
		return v
	case iter.From != 0:
		return iter.whole()
	}
	return Value{}
}

func targets(x pysource.Expr) []string {
	var names []string
	pysource.Walk(x, func(n pysource.Node) bool {
		if name, ok := n.(*pysource.Name); ok {
			names = append(names, name.ID)
		}
		return true
	})
	return names
}

func (f *follower) loop(l *Loop, enter func(), orelse []pysource.Stmt) {
	l.Parent, l.Ctx, l.before = f.ctx.InnermostLoop(), f.ctx, f.m.roots
	if len(f.s.Loops) < maxRecords {
		f.s.Loops = append(f.s.Loops, l)
	}
	outerEnv, outerCtx := f.env, f.ctx
	f.env, f.ctx = outerEnv.fork(), &Context{Parent: outerCtx, Loop: l, NoGrad: outerCtx.NoGrad}
	if enter != nil {
		enter()
	}
	f.body(l.Body)
	layer := f.env
	f.env, f.ctx = outerEnv, outerCtx
	f.env.merge([]*env{layer}, false)
	f.body(orelse)
}
