package flow

import "github.com/plimsoll/plimsoll/internal/code/pysource"

// added is a list's growth where what is added is a list written out: xs += [x].
func added(st *Store) *Store {
	switch x := st.Expr.(type) {
	case *pysource.Sequence:
		if x.Kind == '[' {
			st.Kind = Append
			if len(x.Items) == 1 && len(st.Value.Items) == 1 {
				st.Expr, st.Value = x.Items[0], st.Value.Items[0]
			}
		}
	case *pysource.Comprehension:
		st.Kind = Append
	}
	return st
}

// selfReference recognises "x = x + value", "x = torch.cat([x, value])" and "x = [value for … in loader]".
func (f *follower) selfReference(s *pysource.Assign, t pysource.Expr, v Value) {
	key := Key(t)
	if key == "" {
		return
	}
	switch x := s.Value.(type) {
	case *pysource.Comprehension:
		f.collected(s, x, key)
	case *pysource.Binary:
		if x.Op != "+" {
			return
		}
		for _, side := range []struct{ self, other pysource.Expr }{{x.Left, x.Right}, {x.Right, x.Left}} {
			if Key(side.self) == key {
				f.store(&Store{Kind: Accumulate, Node: s, Base: key, Target: t, Value: f.quiet(side.other), Expr: side.other})
				return
			}
			if scaled(side.self, key) { // a running average: avg = 0.9 * avg + 0.1 * x
				f.store(&Store{Kind: Average, Node: s, Base: key, Target: t, Value: f.quiet(side.other), Expr: side.other})
				return
			}
		}
	case *pysource.Call:
		if f.addedTo(s, t, x, key) {
			return
		}
		if !anyOf(f.m.Dotted(x.Func), "torch.cat", "torch.concat", "torch.concatenate", "torch.vstack", "torch.hstack") || len(x.Args) == 0 {
			return
		}
		list, ok := x.Args[0].Value.(*pysource.Sequence)
		if !ok || len(list.Items) < 2 || Key(list.Items[0]) != key {
			return
		}
		f.store(&Store{Kind: Concat, Node: s, Base: key, Target: t, Value: f.quiet(list.Items[1]), Expr: list.Items[1]})
	}
}

// addedTo recognises "x = x.add(value)" and "x = torch.add(x, value)".
func (f *follower) addedTo(s *pysource.Assign, t pysource.Expr, x *pysource.Call, key string) bool {
	var other pysource.Expr
	a, method := x.Func.(*pysource.Attribute)
	switch {
	case method && a.Attr == "add" && Key(a.X) == key && len(x.Args) > 0:
		other = x.Args[0].Value
	case f.m.Dotted(x.Func) == "torch.add" && len(x.Args) > 1 && Key(x.Args[0].Value) == key:
		other = x.Args[1].Value
	default:
		return false
	}
	f.store(&Store{Kind: Accumulate, Node: s, Base: key, Target: t, Value: f.quiet(other), Expr: other})
	return true
}

// scaled recognises a place that is multiplied by something: (1 - m) * avg.
func scaled(x pysource.Expr, key string) bool {
	b, ok := x.(*pysource.Binary)
	return ok && b.Op == "*" && (Key(b.Left) == key || Key(b.Right) == key)
}

// collected takes "outs = [model(x) for x in loader]" for the loop it stands for.
func (f *follower) collected(s *pysource.Assign, x *pysource.Comprehension, key string) {
	before, roots := *f.s, f.m.roots
	v, loader := f.elements(x)
	*f.s = before
	if !loader || x.Kind == '(' {
		return
	}
	outer := f.ctx
	l := &Loop{Kind: LoaderLoop, Node: s, Iter: x.Clauses[0].Iter, Targets: targets(x.Clauses[0].Target), Parent: outer.InnermostLoop(), Ctx: outer, before: roots}
	f.ctx = &Context{Parent: outer, Loop: l, NoGrad: outer.NoGrad}
	f.store(&Store{Kind: Append, Node: x, Base: key, Target: s.Targets[0], Value: v, Expr: x.Value})
	f.ctx = outer
}
