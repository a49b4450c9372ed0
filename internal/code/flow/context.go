package flow

import "github.com/plimsoll/plimsoll/internal/code/pysource"

// Grad says whether autograd records here.
type Grad uint8

// The states of autograd.
const (
	Recording Grad = iota
	Maybe          // depends on a value: set_grad_enabled(phase == "train")
	Off
)

// Context is where a statement stands: a chain from the innermost block outwards.
type Context struct {
	Parent *Context
	Loop   *Loop         // set on the block of a loop
	Test   pysource.Expr // set on a branch: its condition
	Else   bool          // the branch that runs when Test fails
	With   pysource.Expr // set on the block of a with: its context expression
	Name   string        // dotted name of With
	Try    *pysource.Try // set on the body of a try
	Except *pysource.Handler
	NoGrad Grad
}

// LoopKind is what a loop runs over.
type LoopKind uint8

// The kinds of loops.
const (
	OtherLoop  LoopKind = iota
	LoaderLoop          // batches of a loader
	RangeLoop           // range(...)
	EpochLoop           // a range whose variable counts epochs
	WhileLoop
)

// Loop is one loop.
type Loop struct {
	Kind    LoopKind
	Node    pysource.Stmt // *python.For or *python.While
	Iter    pysource.Expr // nil for while
	Targets []string
	Body    []pysource.Stmt
	Parent  *Loop
	Ctx     *Context // where the loop itself stands

	before int // model calls that were seen when it began
}

// Makes tells whether a value comes, at least in part, from a model call in the loop or in one around it: what was there before is not made again.
func (l *Loop) Makes(v Value) bool {
	for ; l != nil; l = l.Parent {
		for _, r := range v.Roots {
			if r > l.before {
				return true
			}
		}
	}
	return false
}

// InnermostLoop is the closest loop around, or nil.
func (c *Context) InnermostLoop() *Loop {
	for ; c != nil; c = c.Parent {
		if c.Loop != nil {
			return c.Loop
		}
	}
	return nil
}

// Inside tells whether the place is within the loop.
func (c *Context) Inside(l *Loop) bool {
	for ; c != nil; c = c.Parent {
		if c.Loop == l {
			return true
		}
	}
	return false
}

// Branches lists the branches between the place and the loop (nil: the scope), innermost first.
func (c *Context) Branches(l *Loop) []*Context {
	var out []*Context
	for ; c != nil && (l == nil || c.Loop != l); c = c.Parent {
		if c.Test != nil {
			out = append(out, c)
		}
	}
	return out
}

// Within tells whether some block around satisfies the predicate.
func (c *Context) Within(ok func(*Context) bool) bool {
	for ; c != nil; c = c.Parent {
		if ok(c) {
			return true
		}
	}
	return false
}
