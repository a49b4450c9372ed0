package pysource

// Walk visits a node and what is below it, in source order as far as the grammar gives one; visit returns false to
// leave out what is below.
func Walk(n Node, visit func(Node) bool) {
	v := visitor{enter: visit}
	v.node(n)
}

// WalkBody visits the statements of a block.
func WalkBody(body []Stmt, visit func(Node) bool) {
	v := visitor{enter: visit}
	v.body(body)
}

func absent(n Node) bool {
	if n == nil {
		return true
	}
	name, ok := n.(*Name)
	return ok && name == nil
}

// Children calls visit for each node directly below n.
func Children(n Node, visit func(Node)) {
	v := visitor{each: visit}
	v.children(n)
}

// visitor calls one of two functions: each for a node, or enter for a node and, where it says so, for all below it.
type visitor struct {
	each  func(Node)
	enter func(Node) bool
}

func (v *visitor) node(n Node) {
	switch {
	case v.enter == nil:
		v.each(n)
	case !absent(n) && v.enter(n):
		v.children(n)
	}
}

func (v *visitor) children(n Node) {
	switch n := n.(type) {
	case Expr:
		v.below(n)
	case *If:
		for _, b := range n.Branches {
			v.one(b.Test)
			v.body(b.Body)
		}
		v.body(n.Else)
	case *While:
		v.one(n.Test)
		v.body(n.Body)
		v.body(n.Else)
	case *For:
		v.one(n.Target)
		v.one(n.Iter)
		v.body(n.Body)
		v.body(n.Else)
	case *With:
		for _, item := range n.Items {
			v.one(item.Context)
			v.one(item.Target)
		}
		v.body(n.Body)
	case *Try:
		v.body(n.Body)
		for _, h := range n.Handlers {
			v.one(h.Type)
			v.body(h.Body)
		}
		v.body(n.Else)
		v.body(n.Finally)
	case *Match:
		v.one(n.Subject)
		for _, c := range n.Cases {
			v.one(c.Pattern)
			v.one(c.Guard)
			v.body(c.Body)
		}
	case *Function:
		v.list(n.Decorators)
		v.params(n.Params)
		v.one(n.Returns)
		v.body(n.Body)
	case *Class:
		v.list(n.Decorators)
		v.args(n.Args)
		v.body(n.Body)
	case *BadStmt:
		v.body(n.Body)
	default:
		v.simple(n)
	}
}

// simple visits the operands of a statement without a block.
func (v *visitor) simple(n Node) {
	switch n := n.(type) {
	case *ExprStmt:
		v.one(n.X)
	case *Assign:
		v.list(n.Targets)
		v.one(n.Annotation)
		v.one(n.Value)
	case *Return:
		v.one(n.X)
	case *Raise:
		v.one(n.X)
		v.one(n.Cause)
	case *Assert:
		v.one(n.Test)
		v.one(n.Message)
	case *Delete:
		v.list(n.Targets)
	case *TypeAlias:
		v.one(n.Value)
	}
}

// below visits the operands of an expression.
func (v *visitor) below(x Expr) {
	switch x := x.(type) {
	case *String:
		v.list(x.Parts)
	case *Attribute:
		v.one(x.X)
	case *Call:
		v.one(x.Func)
		v.args(x.Args)
	case *Subscript:
		v.one(x.X)
		v.one(x.Index)
	case *Slice:
		v.one(x.Low)
		v.one(x.High)
		v.one(x.Step)
	case *Binary:
		v.one(x.Left)
		v.one(x.Right)
	case *Unary:
		v.one(x.X)
	case *Bool:
		v.list(x.Values)
	case *Compare:
		v.list(x.Values)
	case *Conditional:
		v.one(x.Test)
		v.one(x.Then)
		v.one(x.Else)
	case *Lambda:
		v.params(x.Params)
		v.one(x.Body)
	case *Sequence:
		v.list(x.Items)
	case *Dict:
		for i, key := range x.Keys {
			v.one(key)
			v.one(x.Values[i])
		}
	case *Comprehension:
		v.one(x.Key)
		v.one(x.Value)
		for _, c := range x.Clauses {
			v.one(c.Target)
			v.one(c.Iter)
			v.list(c.Conds)
		}
	case *Await:
		v.one(x.X)
	case *Yield:
		v.one(x.X)
	case *Walrus:
		v.node(x.Target)
		v.one(x.Value)
	case *Starred:
		v.one(x.X)
	}
}

func (v *visitor) one(x Expr) {
	if x != nil {
		v.node(x)
	}
}

func (v *visitor) list(xs []Expr) {
	for _, x := range xs {
		v.one(x)
	}
}

func (v *visitor) body(body []Stmt) {
	for _, s := range body {
		v.node(s)
	}
}

func (v *visitor) args(args []Arg) {
	for _, a := range args {
		v.one(a.Value)
	}
}

func (v *visitor) params(params []Param) {
	for _, p := range params {
		v.one(p.Annotation)
		v.one(p.Default)
	}
}
