package flow

import (
	"strconv"
	"strings"

	"github.com/plimsoll/plimsoll/internal/code/pysource"
)

// quiet gives the value of an expression that was followed already, without noting its calls again.
func (f *follower) quiet(x pysource.Expr) Value {
	before := *f.s
	v := f.eval(x)
	*f.s = before
	return v
}

func (f *follower) eval(x pysource.Expr) Value {
	switch x := x.(type) {
	case nil:
		return Value{}
	case *pysource.Name:
		return f.lookup(x.ID)
	case *pysource.Number:
		if n, err := strconv.ParseInt(x.Text, 0, 64); err == nil {
			return number(n)
		}
		return scalar()
	case *pysource.String:
		for _, p := range x.Parts {
			f.eval(p)
		}
		return scalar()
	case *pysource.Constant:
		return constant(x)
	case *pysource.Attribute:
		return f.attribute(x)
	case *pysource.Call:
		return f.call(x)
	case *pysource.Subscript:
		return f.subscript(x)
	case *pysource.Binary:
		return f.binary(x)
	case *pysource.Unary:
		v := f.eval(x.X)
		if x.Op == "-" && v.HasNum {
			return number(-v.Num)
		}
		if x.Op == "not" {
			return scalar()
		}
		return v
	case *pysource.Bool:
		var out Value
		for _, v := range x.Values {
			out = join(out, f.eval(v))
		}
		return out
	case *pysource.Compare:
		for _, v := range x.Values {
			f.eval(v)
		}
		return Value{Kind: Unknown, Reduced: true}
	}
	return f.evalCompound(x)
}

func constant(x *pysource.Constant) Value {
	if x.Text == "None" || x.Text == "..." {
		return Value{}
	}
	return scalar()
}

func (f *follower) evalCompound(x pysource.Expr) Value {
	switch x := x.(type) {
	case *pysource.Conditional:
		f.eval(x.Test)
		return join(f.eval(x.Then), f.eval(x.Else))
	case *pysource.Sequence:
		out := Value{Kind: Container}
		for _, item := range x.Items {
			v := f.eval(item)
			out.Items = append(out.Items, v)
			out.Roots, out.From = union(out.Roots, v.Roots), out.From|v.From
		}
		if starred(x) >= 0 { // it stands for any number of parts
			out.Items = nil
		}
		return out
	case *pysource.Dict:
		return f.dict(x)
	case *pysource.Comprehension:
		return f.comprehension(x)
	case *pysource.Await:
		return f.eval(x.X)
	case *pysource.Yield:
		f.exit(x.X)
		if f.s.Func != nil {
			f.s.Func.Generator = true
		}
		return Value{}
	case *pysource.Walrus:
		v := f.eval(x.Value)
		f.env.set(x.Target.ID, v)
		return v
	case *pysource.Starred:
		return f.eval(x.X)
	case *pysource.Slice:
		f.maybe(x.Low)
		f.maybe(x.High)
		f.maybe(x.Step)
	}
	return Value{}
}

// dict follows a dict display; where all its keys are written out, its parts stay apart.
func (f *follower) dict(x *pysource.Dict) Value {
	out := Value{Kind: Container}
	known := true
	for i, k := range x.Keys {
		f.maybe(k)
		v := f.eval(x.Values[i])
		out.Roots, out.From = union(out.Roots, v.Roots), out.From|v.From
		key, ok := k.(*pysource.String)
		if known = known && ok && !key.Formatted; known {
			out.Keys, out.Items = append(out.Keys, key.Value), append(out.Items, v)
		}
	}
	if !known {
		out.Keys, out.Items = nil, nil
	}
	return out
}

// comprehension follows [f(x) for x in xs]: its element's graph is the list's.
func (f *follower) comprehension(x *pysource.Comprehension) Value {
	v, _ := f.elements(x)
	return Value{Kind: Container, Roots: v.Roots, From: v.From, Trained: v.Trained, OnGPU: v.OnGPU}
}

// elements follows a comprehension to what it collects, and tells whether it runs over a loader.
func (f *follower) elements(x *pysource.Comprehension) (v Value, loader bool) {
	outer, own := f.env, len(f.own)
	f.env = outer.fork()
	defer func() { f.env, f.own = outer, f.own[:own] }()
	for _, c := range x.Clauses {
		iter := f.eval(c.Iter)
		kind := OtherLoop
		if iter.Kind == Loader {
			kind, loader = LoaderLoop, true
		}
		f.bindLoop(c.Target, c.Iter, iter, kind, nil)
		f.own = append(f.own, targets(c.Target)...)
		for _, cond := range c.Conds {
			f.eval(cond)
		}
	}
	f.maybe(x.Key)
	return f.eval(x.Value), loader
}

func (f *follower) lookup(name string) Value {
	if v, ok := f.env.get(name); ok {
		return v
	}
	if _, imported := f.m.Imports[name]; imported || f.m.Functions[name] != nil || f.m.Classes[name] != nil || usual[name] != "" {
		return Value{}
	}
	return f.m.guess(name)
}

func (f *follower) attribute(x *pysource.Attribute) Value {
	if key := Key(x); key != "" {
		if v, ok := f.env.get(key); ok {
			return v
		}
		if rest, ok := strings.CutPrefix(key, "self."); ok && !strings.Contains(rest, ".") {
			return f.selfAttribute(rest)
		}
	}
	base := f.eval(x.X)
	if base.Class != "" {
		if v := f.m.attributeOf(base, x.Attr); v.Kind != Unknown || v.Class != "" {
			return v
		}
	}
	switch {
	case base.Kind == Tensor || base.HasGraph():
		return tensorAttribute(base, x.Attr)
	case base.Kind == Batch || base.Kind == Leaf:
		if anyOf(x.Attr, "shape", "device", "dtype", "ndim") {
			return scalar()
		}
		return base.whole()
	case base.Kind == Model && anyOf(x.Attr, "module"):
		base.Wrap = ""
		return base
	}
	if base.Kind == Unknown && f.m.Dotted(x) != "" {
		if v := named(x.Attr); v.Kind != Unknown && f.m.Imports[firstName(x)] == "" {
			return v
		}
	}
	if base.From != 0 && base.Kind == Unknown {
		return tensorAttribute(base, x.Attr)
	}
	return Value{}
}

// attributeOf is what an object of a known class holds under a name.
func (m *Module) attributeOf(v Value, attr string) Value {
	if c := m.Classes[v.Class]; c != nil {
		return m.attrOf(c, attr, 0)
	}
	if facts := m.classFactsOf(v.Class); facts != nil {
		return m.findAttr(facts, attr, 0)
	}
	return Value{}
}

func firstName(x pysource.Expr) string {
	for {
		switch y := x.(type) {
		case *pysource.Attribute:
			x = y.X
		case *pysource.Name:
			return y.ID
		default:
			return ""
		}
	}
}

func tensorAttribute(base Value, attr string) Value {
	switch attr {
	case "data", "grad":
		return base.detached()
	case "shape", "device", "dtype", "ndim", "requires_grad", "is_cuda", "grad_fn":
		return scalar()
	case "loss":
		base.Reduced = true
	}
	if part, ok := base.at(attr); ok {
		return part
	}
	if countAttr(attr) {
		return scalar()
	}
	base.Guess = base.Guess || base.HasGraph() && !PromisesOutput(attr) && !anyOf(attr, "T", "mT", "H", "mH", "real", "imag", "sample", "values", "x") // an object, whose class is not known
	return base.whole()
}

// countAttr tells whether an attribute's name promises a whole number: g.batch_size, data.num_graphs.
func countAttr(attr string) bool {
	return anyOf(attr, "batch_size", "size", "length", "name", "id", "idx") || strings.HasPrefix(attr, "num_") || strings.HasPrefix(attr, "n_")
}

// selfAttribute knows what the class's methods put there, else goes by the name.
func (f *follower) selfAttribute(attr string) Value {
	fn := f.s.Func
	for fn != nil && fn.Class == nil {
		fn = fn.Outer
	}
	if fn == nil {
		return f.m.guess("self." + attr)
	}
	if property := f.m.method(fn.Class, attr); property != nil && property != fn && isProperty(property) {
		f.m.analyze(property)
		return f.given(&property.facts, nil)
	}
	if v := f.m.attrOf(fn.Class, attr, 0); v.Kind != Unknown || v.Class != "" {
		return v
	}
	return f.m.guess("self." + attr)
}

func isProperty(fn *Function) bool {
	for _, d := range fn.Node.Decorators {
		if name, ok := d.(*pysource.Name); ok && anyOf(name.ID, "property", "cached_property") {
			return true
		}
	}
	return false
}

func (f *follower) subscript(x *pysource.Subscript) Value {
	base, index := f.eval(x.X), f.eval(x.Index)
	if key, ok := x.Index.(*pysource.String); ok {
		if part, ok := base.at(key.Value); ok {
			return part
		}
	}
	if index.HasNum && int(index.Num) >= 0 && int(index.Num) < len(base.Items) && !base.dict() {
		return base.Items[index.Num]
	}
	base = base.whole()
	if base.Kind == Container {
		base.Kind = Unknown
		if base.HasGraph() {
			base.Kind = Tensor
		}
	}
	if base.Kind == Unknown && !base.HasGraph() && strings.HasSuffix(strings.ToLower(Last(Key(x.X))), "loaders") {
		return Value{Kind: Loader, Guess: true} // loaders["val"]
	}
	switch base.Kind {
	case Loader, Model, Optimizer, Criterion: // a dict or list of them
		base.Guess, base.Class = true, ""
		return base
	case Scalar:
		return Value{Guess: true}
	case Checkpoint:
		return Value{}
	}
	return base
}

func (f *follower) binary(x *pysource.Binary) Value {
	l, r := f.eval(x.Left), f.eval(x.Right)
	if l.HasNum && r.HasNum {
		if n, ok := fold(x.Op, l.Num, r.Num); ok {
			return number(n)
		}
		return scalar()
	}
	if x.Op == "*" && (l.Kind == Container || r.Kind == Container) || x.Op == "+" && l.Kind == Container && r.Kind == Container {
		return Value{Kind: Container, Roots: union(l.Roots, r.Roots), From: l.From | r.From}
	}
	v := combine(l, r)
	if f.ctx.NoGrad == Off {
		v.Roots, v.From = nil, 0
	}
	if x.Op == "/" {
		v.Divided = true
	}
	if x.Op == "*" && fraction(x) {
		v.Divided = true
	}
	return v
}

// fraction recognises a multiplication by 1/n or by something named like a scale.
func fraction(x *pysource.Binary) bool {
	for _, side := range []pysource.Expr{x.Left, x.Right} {
		if b, ok := side.(*pysource.Binary); ok && b.Op == "/" {
			return true
		}
		if key := strings.ToLower(Last(Key(side))); key != "" && (strings.Contains(key, "scale") || strings.Contains(key, "weight") || strings.Contains(key, "norm")) {
			return true
		}
	}
	return false
}

// fold computes with known integers, and gives up where Python's answer would not fit.
func fold(op string, a, b int64) (int64, bool) {
	const limit = 1 << 31
	if a > limit || a < -limit || b > limit || b < -limit {
		return 0, false
	}
	switch op {
	case "+":
		return a + b, true
	case "-":
		return a - b, true
	case "*":
		return a * b, true
	case "//":
		if a >= 0 && b > 0 {
			return a / b, true
		}
	case "%":
		if a >= 0 && b > 0 {
			return a % b, true
		}
	case "**":
		if b >= 0 && b < 8 {
			out := int64(1)
			for range b {
				if out *= a; out > limit || out < -limit {
					return 0, false
				}
			}
			return out, true
		}
	}
	return 0, false
}
