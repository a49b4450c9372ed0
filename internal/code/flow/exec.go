package flow

import (
	"slices"
	"strings"

	"github.com/plimsoll/plimsoll/internal/code/pysource"
)

// follower walks one body in order.
type follower struct {
	m   *Module
	s   *Scope
	env *env
	ctx *Context
	own []string // variables of the comprehensions around: what they name is somebody else's
}

func (m *Module) follow(s *Scope, ctx *Context) {
	f := &follower{m: m, s: s, env: s.env, ctx: ctx}
	f.body(s.Body)
}

func (f *follower) next() int { f.s.order++; return f.s.order }

func (f *follower) body(body []pysource.Stmt) {
	for _, s := range body {
		f.stmt(s)
		switch s := s.(type) {
		case *pysource.Return, *pysource.Raise:
			return // what follows never runs
		case *pysource.ExprStmt:
			if c, ok := s.X.(*pysource.Call); ok && anyOf(f.m.Dotted(c.Func), "exit", "quit", "sys.exit", "os._exit") {
				return
			}
		}
	}
}

func (f *follower) stmt(s pysource.Stmt) {
	switch s := s.(type) {
	case *pysource.ExprStmt:
		f.eval(s.X)
		f.switchGrad(s.X)
	case *pysource.Assign:
		f.assign(s)
	case *pysource.Return:
		f.exit(s.X)
	case *pysource.If:
		f.ifStmt(s)
	case *pysource.For:
		f.forStmt(s)
	case *pysource.While:
		f.eval(s.Test)
		f.loop(&Loop{Kind: WhileLoop, Node: s, Body: s.Body}, nil, s.Else)
	case *pysource.With:
		f.with(s)
	case *pysource.Try:
		f.try(s)
	case *pysource.Match:
		f.match(s)
	case *pysource.Function:
		f.define(s)
	case *pysource.Class:
		f.class(s)
	case *pysource.Delete:
		for _, t := range s.Targets {
			if key := Key(t); key != "" {
				f.env.set(key, Value{})
				if len(f.s.Deletes) < maxRecords {
					f.s.Deletes = append(f.s.Deletes, &Delete{key, f.ctx, f.next()})
				}
			}
		}
	case *pysource.Raise:
		f.maybe(s.X)
		f.maybe(s.Cause)
	case *pysource.Assert:
		f.maybe(s.Test)
	case *pysource.BadStmt:
		f.body(s.Body)
	}
}

func (f *follower) maybe(x pysource.Expr) {
	if x != nil {
		f.eval(x)
	}
}

func (f *follower) exit(x pysource.Expr) {
	e := &Exit{X: x, Ctx: f.ctx}
	if x != nil {
		e.Value = f.eval(x)
	}
	e.Order = f.next()
	if len(f.s.Returns) < maxRecords {
		f.s.Returns = append(f.s.Returns, e)
	}
}

// in runs a body one block deeper, its bindings in a layer of their own.
func (f *follower) in(ctx *Context, body []pysource.Stmt) *env {
	outerEnv, outerCtx := f.env, f.ctx
	ctx.Parent = outerCtx
	if ctx.NoGrad < outerCtx.NoGrad {
		ctx.NoGrad = outerCtx.NoGrad
	}
	f.env, f.ctx = outerEnv.fork(), ctx
	f.body(body)
	layer := f.env
	f.env, f.ctx = outerEnv, outerCtx
	return layer
}

// same runs a body one block deeper that certainly runs: its bindings stay.
func (f *follower) same(ctx *Context, body []pysource.Stmt) {
	outer := f.ctx
	ctx.Parent = outer
	if ctx.NoGrad < outer.NoGrad {
		ctx.NoGrad = outer.NoGrad
	}
	f.ctx = ctx
	f.body(body)
	f.ctx = outer
}

func (f *follower) ifStmt(s *pysource.If) {
	var layers []*env
	keep := func(layer *env, body []pysource.Stmt) {
		if !leaves(body) {
			layers = append(layers, layer)
		}
	}
	for _, b := range s.Branches {
		f.eval(b.Test)
		keep(f.in(&Context{Test: b.Test}, b.Body), b.Body)
	}
	if len(s.Else) > 0 {
		last := s.Branches[len(s.Branches)-1].Test
		keep(f.in(&Context{Test: last, Else: true}, s.Else), s.Else)
	}
	f.env.merge(layers, len(s.Else) > 0 && len(layers) > 0)
	if len(layers) > 0 && !leaves(s.Branches[0].Body) {
		f.converted(s.Branches[0].Test, layers[0])
	}
}

// converted follows "if torch.is_tensor(x): x = x.item()": what goes past the test, or into another branch, is no tensor either.
func (f *follower) converted(test pysource.Expr, layer *env) {
	c, ok := test.(*pysource.Call)
	if !ok || len(c.Args) == 0 {
		return
	}
	key := Key(c.Args[0].Value)
	v, rebound := layer.own(key)
	if !rebound || v.Carries() {
		return
	}
	name := Last(Key(c.Func))
	text := ""
	if len(c.Args) == 2 {
		text = string(f.m.File.Text(c.Args[1].Value))
	}
	if name == "is_tensor" || name == "isinstance" && (strings.Contains(text, "Tensor") || strings.Contains(text, "Variable")) || name == "hasattr" {
		f.env.set(key, v)
	}
}

// leaves tells whether a block ends by going elsewhere.
func leaves(body []pysource.Stmt) bool {
	if len(body) == 0 {
		return false
	}
	switch s := body[len(body)-1].(type) {
	case *pysource.Return, *pysource.Raise:
		return true
	case *pysource.Word:
		return s.Keyword == "break" || s.Keyword == "continue"
	}
	return false
}

func (f *follower) with(s *pysource.With) {
	outer := f.ctx
	for _, item := range s.Items {
		v := f.eval(item.Context)
		if item.Target != nil {
			f.bindTarget(item.Target, v, s)
		}
		f.ctx = &Context{
			Parent: f.ctx, With: item.Context, Name: f.contextName(item.Context), NoGrad: max(f.ctx.NoGrad, f.gradOf(item.Context)),
		}
	}
	f.body(s.Body)
	f.ctx = outer
}

func (f *follower) contextName(x pysource.Expr) string {
	if c, ok := x.(*pysource.Call); ok {
		x = c.Func
	}
	return f.m.Dotted(x)
}

// gradOf tells what a with-item does to autograd.
func (f *follower) gradOf(x pysource.Expr) Grad {
	last := Last(f.contextName(x))
	if last == "set_grad_enabled" {
		return f.setGrad(x)
	}
	if noGradName(last) {
		return Off
	}
	// "torch.no_grad() if frozen else nullcontext()", ExitStack and the like.
	hidden := false
	pysource.Walk(x, func(n pysource.Node) bool {
		if name := identifier(n); name != "" && (noGradName(name) || name == "set_grad_enabled") {
			hidden = true
		}
		return !hidden
	})
	if hidden {
		return Maybe
	}
	return Recording
}

func identifier(n pysource.Node) string {
	switch n := n.(type) {
	case *pysource.Name:
		return n.ID
	case *pysource.Attribute:
		return n.Attr
	}
	return ""
}

// switchGrad follows torch.set_grad_enabled(False) as a statement: it lasts until the end of the body.
func (f *follower) switchGrad(x pysource.Expr) {
	if c, ok := x.(*pysource.Call); ok && f.ctx.Parent == nil && Last(f.m.Dotted(c.Func)) == "set_grad_enabled" {
		f.ctx.NoGrad = max(f.ctx.NoGrad, f.setGrad(c))
	}
}

func (f *follower) setGrad(x pysource.Expr) Grad {
	c, ok := x.(*pysource.Call)
	if !ok || len(c.Args) == 0 {
		return Maybe
	}
	if k, ok := c.Args[0].Value.(*pysource.Constant); ok {
		if k.Text == "False" {
			return Off
		}
		return Recording
	}
	return Maybe
}

func (f *follower) try(s *pysource.Try) {
	if len(f.s.Tries) < maxRecords {
		f.s.Tries = append(f.s.Tries, &TrySite{s, f.ctx})
	}
	f.same(&Context{Try: s}, s.Body)
	var layers []*env
	for i := range s.Handlers {
		h := &s.Handlers[i]
		layer := f.in(&Context{Except: h}, h.Body)
		if !leaves(h.Body) {
			layers = append(layers, layer)
		}
	}
	f.env.merge(layers, false)
	f.body(s.Else)
	f.body(s.Finally)
}

func (f *follower) match(s *pysource.Match) {
	f.eval(s.Subject)
	var layers []*env
	for _, c := range s.Cases {
		layer := f.in(&Context{Test: s.Subject}, c.Body)
		if !leaves(c.Body) {
			layers = append(layers, layer)
		}
	}
	f.env.merge(layers, false)
}

func (f *follower) define(s *pysource.Function) {
	for _, d := range s.Decorators {
		f.eval(d)
	}
	if fn := f.m.byNode[s]; fn != nil && fn.env == nil {
		fn.env = f.env
	}
	f.env.set(s.Name, Value{})
}

// class follows the statements of a class body that are not methods, and leaves the methods for later.
func (f *follower) class(s *pysource.Class) {
	for _, inner := range s.Body {
		if fn, ok := inner.(*pysource.Function); ok {
			for _, d := range fn.Decorators {
				f.eval(d)
			}
			if known := f.m.byNode[fn]; known != nil && known.env == nil {
				known.env = f.env
			}
			continue
		}
		f.in(&Context{}, []pysource.Stmt{inner})
	}
}

func (f *follower) assign(s *pysource.Assign) {
	if s.Value == nil {
		return
	}
	if s.Op != "" {
		f.augmented(s)
		return
	}
	v := f.eval(s.Value)
	for _, t := range s.Targets {
		f.selfReference(s, t, v)
		f.bindExpr(t, v, s, s.Value)
	}
}

// augmented follows "x += value".
func (f *follower) augmented(s *pysource.Assign) {
	t := s.Targets[0]
	old, v := f.eval(t), f.eval(s.Value)
	key := Key(innermost(t))
	if key != "" && (s.Op == "+=" || s.Op == "-=") {
		f.store(added(&Store{Kind: Accumulate, Node: s, Base: key, Target: t, Value: v, Expr: s.Value}))
	}
	result := combine(old, v)
	if old.Kind == Container {
		result = old
		result.Roots, result.From = union(old.Roots, v.Roots), old.From|v.From
	}
	result.Divided = result.Divided || s.Op == "/="
	if k := Key(t); k != "" {
		f.env.set(k, result)
		f.bound(Bind{k, s, s.Value, result, f.ctx, f.next()})
		return
	}
	f.keep(key, v)
}

func (f *follower) store(st *Store) {
	st.Ctx, st.Order = f.ctx, f.next()
	st.Holder, _ = f.env.get(st.Base)
	if len(f.s.Stores) < maxRecords {
		f.s.Stores = append(f.s.Stores, st)
	}
}

// keep adds a stored value's graph to what holds it.
func (f *follower) keep(key string, v Value) {
	if key == "" {
		return
	}
	old, _ := f.env.get(key)
	if old.Kind == Unknown {
		old.Kind = Container
	}
	old.Roots, old.From = union(old.Roots, v.Roots), old.From|v.From
	old.Items, old.Keys = nil, nil
	old.Trained = old.Trained || old.Kind == Leaf // written into: it may have a graph from now on
	f.env.set(key, old)
}

// innermost is what a chain of subscripts starts at: d of d[a][b].
func innermost(x pysource.Expr) pysource.Expr {
	for {
		sub, ok := x.(*pysource.Subscript)
		if !ok {
			return x
		}
		x = sub.X
	}
}

func (f *follower) bindTarget(t pysource.Expr, v Value, s pysource.Stmt) { f.bindExpr(t, v, s, nil) }

func (f *follower) bindExpr(t pysource.Expr, v Value, s pysource.Stmt, x pysource.Expr) {
	switch t := t.(type) {
	case *pysource.Sequence:
		f.unpack(t, v, s, x)
	case *pysource.Starred:
		f.bindExpr(t.X, v, s, nil)
	case *pysource.Subscript:
		f.eval(t.Index)
		key := Key(innermost(t.X))
		if key != "" && s != nil {
			f.store(&Store{Kind: Index, Node: s, Base: key, Target: t, Key: t.Index, Value: v, Expr: x})
			f.keep(key, v)
		}
	default:
		key := Key(t)
		if key == "" {
			return
		}
		if (v.Kind == Tensor || v.Kind == Checkpoint) && isCall(x) && (f.m.uses[key] == Model || f.calls(x, key)) {
			v = Value{Kind: Model, Guess: true} // a model that was saved whole, or made by a function that calls its class `model`
		}
		if v.Kind == Unknown && !v.HasGraph() {
			if guess := f.m.guess(key); guess.Kind != Unknown && plausible(x) && !f.m.plainInstance(v) {
				guess.Wrap, guess.Class = v.Wrap, v.Class
				v = guess
			}
		}
		v.Guess = v.Guess && !(v.Kind == Tensor && v.HasGraph() && f.m.backed(f.s.Func, key)) // backward() is called on tensors alone
		if f.mustHaveGraph(v, key, x) {
			v = Value{Kind: Tensor, Roots: []int{f.newRoot()}, Reduced: true, Divided: v.Divided, Guess: true} // backward() is called on it
		}
		if owner, ok := strings.CutSuffix(key, ".requires_grad"); ok {
			f.requireGrad(owner)
		}
		f.env.set(key, v)
		f.bound(Bind{key, s, x, v, f.ctx, f.next()})
	}
}

// mustHaveGraph tells whether a value whose graph was not found has one, since backward() is called on its name: what a call gives, or a sum.
func (f *follower) mustHaveGraph(v Value, key string, x pysource.Expr) bool {
	if v.HasGraph() || f.ctx.NoGrad == Off || !f.m.backed(f.s.Func, key) {
		return false
	}
	_, sum := x.(*pysource.Binary)
	return v.Kind == Unknown && isCall(x) || sum && (v.Kind == Unknown || v.Kind == Tensor)
}

// calls recognises "model = model(n_classes)": what is called was a class.
func (f *follower) calls(x pysource.Expr, key string) bool {
	c, ok := x.(*pysource.Call)
	if !ok || Key(c.Func) != key {
		return false
	}
	v := f.lookup(key)
	return v.Kind == Model && v.Guess
}

func (f *follower) bound(b Bind) {
	if b.Node != nil && len(f.s.Binds) < maxRecords { // the variables of a comprehension are nobody else's
		kept := f.m.made.binds.next()
		*kept = b
		f.s.Binds = append(f.s.Binds, kept)
	}
}

// requireGrad marks a tensor that was asked to require grad after it was made.
func (f *follower) requireGrad(key string) {
	if v, ok := f.env.get(key); ok {
		v.Grad = true
		f.env.set(key, v)
	}
}

// plausible tells whether a value of this expression may be what the name it gets promises: None and strings are not.
func plausible(x pysource.Expr) bool {
	switch x.(type) {
	case *pysource.Constant, *pysource.String, *pysource.Number, *pysource.Dict, *pysource.Lambda:
		return false
	}
	return true
}

func (f *follower) unpack(t *pysource.Sequence, v Value, s pysource.Stmt, x pysource.Expr) {
	values, _ := x.(*pysource.Sequence)
	if (v.Kind == Unknown || v.Kind == Container) && !v.HasGraph() && !v.dict() && isCall(x) {
		v = f.lossAmong(t, v)
	}
	if v.Kind == Tensor && (v.Guess || v.Reduced) && v.HasGraph() && len(v.Items) == 0 && isCall(x) { // a number cannot be unpacked: a loss and something else
		v = f.onlyLosses(t, v)
	}
	for i, item := range t.Items {
		part := v.whole()
		part.HasNum, part.Reduced = false, false
		if part.Kind == Container {
			part.Kind = Unknown
			if part.HasGraph() {
				part.Kind = Tensor
			}
		}
		_, star := item.(*pysource.Starred)
		if at, ok := takes(t, i, len(v.Items)); ok && !v.dict() {
			part = v.Items[at]
		} else if star {
			part = f.rest(t, i, v)
		} else if part.HasGraph() && labels(item) {
			part = part.detached() // gathered together with outputs: classes and indices have no graph
		} else if part.Kind == Tensor && len(t.Items) > 1 && isCall(x) && Key(item) != "" && !output(item) {
			part.Guess = true // what a forward gives beside its outputs may be numbers
		}
		var from pysource.Expr = x
		if values != nil && starred(values) < 0 {
			if at, ok := takes(t, i, len(values.Items)); ok {
				from = values.Items[at]
			}
		}
		f.bindExpr(item, part, s, from)
	}
}

// takes tells which of n values a target gets. Targets behind a starred one count from the end; the starred one gets several.
func takes(t *pysource.Sequence, i, n int) (int, bool) {
	star, several := starred(t), n-len(t.Items)
	switch {
	case star < 0:
		return i, several == 0
	case i == star || several < -1:
		return 0, false
	case i > star:
		return i + several, true
	}
	return i, true
}

// starred is the place of the starred one of several expressions; negative where there is none.
func starred(t *pysource.Sequence) int {
	return slices.IndexFunc(t.Items, func(x pysource.Expr) bool { _, ok := x.(*pysource.Starred); return ok })
}

// rest is the list that a starred target gets.
func (f *follower) rest(t *pysource.Sequence, star int, v Value) Value {
	out := Value{Kind: Container, Roots: v.Roots, From: v.From}
	if end := star + len(v.Items) - len(t.Items) + 1; len(v.Items) > 0 && end >= star && !v.dict() {
		out.Roots, out.From = nil, 0
		for _, item := range v.Items[star:end] {
			out.Items, out.Roots, out.From = append(out.Items, item), union(out.Roots, item.Roots), out.From|item.From
		}
	}
	return out
}

// output tells whether a name promises what a model computes. A prediction or a score may be text or a number.
func output(x pysource.Expr) bool { return PromisesOutput(Last(Key(x))) }

// PromisesOutput tells it of a name.
func PromisesOutput(name string) bool {
	n := strings.ToLower(name)
	for _, part := range []string{"loss", "out", "logit", "prob", "feat", "emb", "hidden", "recon", "y_hat", "mu", "var", "attn"} {
		if strings.Contains(n, part) {
			return true
		}
	}
	return false
}

// labels tells whether a name promises classes or indices, which are whole numbers.
func labels(x pysource.Expr) bool {
	n := strings.ToLower(Last(Key(x)))
	return anyOf(n, "y", "gt", "idx", "index", "indices", "ids") || strings.HasSuffix(n, "label") || strings.HasSuffix(n, "labels") || strings.HasSuffix(n, "target") || strings.HasSuffix(n, "targets")
}

func isCall(x pysource.Expr) bool { _, ok := x.(*pysource.Call); return ok }

// onlyLosses leaves the graph to the parts that backward() is called on or that are named like losses: what else a loss function
// gives may be statistics.
func (f *follower) onlyLosses(t *pysource.Sequence, v Value) Value {
	out := Value{Kind: Container, Roots: v.Roots, From: v.From}
	for _, item := range t.Items {
		part := Value{}
		if key := Key(item); f.m.backed(f.s.Func, key) || strings.Contains(strings.ToLower(Last(key)), "loss") {
			part = v
		}
		out.Items = append(out.Items, part)
	}
	return out
}

// lossAmong knows what a call gives by what is done with it: where backward() is called on one part, that part has a graph, and
// so have those beside it that are named like losses.
func (f *follower) lossAmong(t *pysource.Sequence, v Value) Value {
	backed := false
	for _, item := range t.Items {
		backed = backed || f.m.backed(f.s.Func, Key(item))
	}
	if !backed || f.ctx.NoGrad == Off {
		return v
	}
	root := []int{f.newRoot()}
	out := Value{Kind: Container, Roots: root}
	for i, item := range t.Items {
		part := Value{}
		if len(v.Items) == len(t.Items) {
			part = v.Items[i]
		}
		if key := Key(item); part.Kind != Scalar && part.Kind != Leaf && part.Kind != Batch && (f.m.backed(f.s.Func, key) || strings.Contains(strings.ToLower(Last(key)), "loss")) {
			part = Value{Kind: Tensor, Roots: root, Reduced: true, Guess: !f.m.backed(f.s.Func, key)}
		}
		out.Items = append(out.Items, part)
	}
	return out
}
