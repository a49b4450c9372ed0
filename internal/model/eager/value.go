package eager

import (
	"github.com/plimsoll/plimsoll/internal/memory/tape"
	"github.com/plimsoll/plimsoll/internal/model/tensor"
	"github.com/plimsoll/plimsoll/internal/units"
)

// Tensor is a PyTorch tensor without elements: a layout and a type over a storage, with a place in the
// autograd graph. References are counted as Python and C++ count them.
//
// A tensor fresh from an operator is a temporary: the next operator that takes it as an argument drops it when it returns,
// as Python drops the values of an expression. What has a name in the modelling code is given one with Call.Let or Call.Set.
type Tensor struct {
	tensor.Layout
	DType tensor.DType

	p     *Process
	store *storage
	refs  int32
	temp  bool // the one reference is the expression that runs
	view  bool // made as a view of another tensor, whose storage it shares
	host  bool // lives in host memory

	requires bool // requires_grad
	leaf     bool
	node     *Node // grad_fn; nil for leaves
	output   int   // which output of node
	grad     *Tensor
	sink     *Node  // a leaf's gradient accumulator
	Name     string // of a parameter or buffer
	frozen   bool
	walk     uint32        // over a model's parameters that met it last
	packed   []units.Bytes // sizes of a quantized parameter's tensors, the weights first; none: elements times width
}

// newTensor makes a temporary over a storage whose reference it takes over.
func (p *Process) newTensor(s *storage, l tensor.Layout, d tensor.DType) *Tensor {
	t := p.tensors.one()
	*t = Tensor{Layout: l, DType: d, p: p, store: s, refs: 1, temp: true, leaf: true}
	if p.fresh != nil {
		p.fresh = append(p.fresh, t)
	}
	return t
}

// empty allocates a tensor of a layout.
func (p *Process) empty(l tensor.Layout, d tensor.DType) *Tensor {
	return p.newTensor(p.alloc(units.Bytes(l.Numel())*d.Width()), l, d)
}

func (p *Process) emptyOf(d tensor.DType, sizes ...int) *Tensor {
	return p.empty(tensor.Of(sizes...), d)
}

// alias makes another tensor over the same storage.
func (t *Tensor) alias(l tensor.Layout) *Tensor {
	t.store.refs++
	out := t.p.newTensor(t.store, l, t.DType)
	out.view, out.host = true, t.host
	return out
}

// Process is the process the tensor lives in.
func (t *Tensor) Process() *Process { return t.p }

// Bytes is the size of its elements.
func (t *Tensor) Bytes() units.Bytes { return units.Bytes(t.Numel()) * t.DType.Width() }

// RequiresGrad tells whether backward reaches the tensor.
func (t *Tensor) RequiresGrad() bool { return t.requires }

// Retain adds a reference: the tensor is no temporary any more.
func (t *Tensor) Retain() *Tensor {
	t.alive()
	if t.temp {
		t.temp = false
		return t
	}
	t.refs++
	return t
}

// Release drops a reference.
func (t *Tensor) Release() {
	t.refs--
	if t.refs > 0 {
		return
	}
	if t.refs < 0 {
		panic(fault("a tensor of shape %v is used after its last reference; give it a name with Let", t.Sizes))
	}
	t.temp = false
	t.store.release()
	if t.node != nil {
		n := t.node
		t.node = nil
		n.unref()
	}
	if t.grad != nil {
		t.grad.Release()
	}
}

func (t *Tensor) alive() {
	if t.refs <= 0 {
		panic(fault("a tensor of shape %v is used after its last reference; give it a name with Let", t.Sizes))
	}
}

// Drop releases the tensor if it is a temporary: an expression whose value nobody takes.
func (t *Tensor) Drop() {
	if t != nil && t.temp {
		t.Release()
	}
}

// drop releases the temporaries among arguments once an operator has returned.
func drop(args ...*Tensor) {
	for i, a := range args {
		if a == nil || !a.temp || seen(args[:i], a) {
			continue
		}
		a.Release()
	}
}

func seen(args []*Tensor, t *Tensor) bool {
	for _, a := range args {
		if a == t {
			return true
		}
	}
	return false
}

// Input allocates a tensor that comes from outside (a batch).
func (p *Process) Input(name string, d tensor.DType, sizes ...int) *Tensor {
	was, op := p.category, p.op
	p.category, p.op = tape.Inputs, name
	defer func() { p.category, p.op = was, op }()
	return p.emptyOf(d, sizes...)
}

// Host makes a tensor that needs no device memory (a Python or CPU scalar).
func (p *Process) Host(d tensor.DType, sizes ...int) *Tensor {
	t := p.newTensor(&storage{p: p, refs: 1, none: true}, tensor.Of(sizes...), d)
	t.host = true
	return t
}

// Call is a running Python function: it holds its arguments and its named values until it returns.
type Call struct {
	p      *Process
	held   []*Tensor
	args   int // held[:args] are arguments of a module call; they stay even when the name is given away
	module bool
}

// Enter starts a module's call. nn.Module.__call__ keeps the arguments in its own frame, so they live until
// Return even when forward gives their names to other values (torch/nn/modules/module.py, _call_impl).
func (p *Process) Enter(name string, args ...*Tensor) *Call {
	c := p.Function(args...)
	c.args, c.module = len(c.held), true
	p.enter(p.within(p.here(), name))
	return c
}

// Function starts the call of a plain Python function: its parameters are names like others.
func (p *Process) Function(args ...*Tensor) *Call {
	var c *Call
	if n := len(p.calls); n > 0 {
		c, p.calls = p.calls[n-1], p.calls[:n-1]
	} else {
		c = &Call{p: p}
	}
	c.args, c.module = 0, false
	p.open = append(p.open, c)
	for _, a := range args {
		if a != nil {
			c.held = append(c.held, a.Retain())
		}
	}
	return c
}

// Process is the process the call runs in.
func (c *Call) Process() *Process { return c.p }

// Let gives a value a name that lasts until the call returns.
func (c *Call) Let(t *Tensor) *Tensor {
	if t != nil {
		c.held = append(c.held, t.Retain())
	}
	return t
}

// Lets gives several values names.
func (c *Call) Lets(ts []*Tensor) []*Tensor {
	for _, t := range ts {
		c.Let(t)
	}
	return ts
}

// Set assigns a name anew: the new value exists before the old one goes, as in Python's x = f(x).
func (c *Call) Set(name **Tensor, t *Tensor) {
	old := *name
	*name = c.Let(t)
	c.forget(old)
}

// Del removes names (Python's del).
func (c *Call) Del(names ...**Tensor) {
	for _, n := range names {
		c.forget(*n)
		*n = nil
	}
}

// forget drops one reference of the frame to t, if it has one beside its arguments.
func (c *Call) forget(t *Tensor) {
	if t == nil {
		return
	}
	for i := c.args; i < len(c.held); i++ {
		if c.held[i] == t {
			c.held = append(c.held[:i], c.held[i+1:]...)
			t.Release()
			return
		}
	}
}

// Return ends the call with one value; names and arguments go in the order they came.
func (c *Call) Return(out *Tensor) *Tensor {
	c.ReturnAll(out)
	return out
}

// ReturnAll ends the call with several values.
func (c *Call) ReturnAll(outs ...*Tensor) []*Tensor {
	for i, o := range outs {
		if o != nil && !seen(outs[:i], o) {
			o.Retain()
		}
	}
	for _, t := range c.held {
		t.Release()
	}
	c.held = c.held[:0]
	if c.module {
		c.p.pop()
	}
	c.p.open = c.p.open[:len(c.p.open)-1]
	c.p.calls = append(c.p.calls, c)
	for i, o := range outs {
		if o == nil || seen(outs[:i], o) {
			continue
		}
		c.hand(o)
	}
	return outs
}

// hand turns the reference that carried a value out of a call into a temporary, or drops it where
// somebody else holds the value anyway.
func (c *Call) hand(o *Tensor) {
	if o.refs == 1 {
		o.temp = true
		return
	}
	o.Release()
}

// RequireGrad makes a leaf collect a gradient.
func (t *Tensor) RequireGrad() { t.requires = true }

// AsLeaf is t.requires_grad = True: a tensor that depends on nothing trained collects a gradient all the same.
func (t *Tensor) AsLeaf() {
	if t.node == nil && t.p.grad {
		t.RequireGrad()
	}
}
