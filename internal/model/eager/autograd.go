package eager

import (
	"errors"
	"slices"

	"github.com/plimsoll/plimsoll/internal/memory/tape"
	"github.com/plimsoll/plimsoll/internal/model/tensor"
)

// Node is a function of the backward graph with what it saved.
type Node struct {
	p        *Process
	name     string
	at       *site // where its operator ran
	sequence uint64
	refs     int32
	next     []edge // one per differentiable input of the operator
	outputs  []shaped
	saved    []slot
	held     []*storage // attributes of a torch.autograd.Function's ctx: they live as long as the node
	apply    func(grads []*Tensor) []*Tensor
	leaf     *Tensor // of an accumulator

	pending int       // engine: nodes that have still to hand in gradients
	buffer  []*Tensor // engine: gradients collected so far, one per output
	visit   uint64    // engine: the last traversal that met the node
}

// edge leads from a node to the node that made one of its operator's inputs.
type edge struct {
	node  *Node
	index int
	want  shaped // the input itself: gradients are brought to its shape and type
}

type shaped struct {
	layout tensor.Layout
	dtype  tensor.DType
}

// slot is one saved tensor: its storage, a place in a checkpoint that will compute it again, or a copy on the host.
type slot struct {
	store *storage
	frame *checkpointFrame
	index int
	away  *packed
}

// saveHook decides what becomes of a tensor that autograd saves (torch.autograd.graph.saved_tensors_hooks).
type saveHook interface{ pack(t *Tensor) slot }

// record starts a node over an operator's differentiable inputs; nil where no gradient will flow.
func (p *Process) record(name string, inputs ...*Tensor) *Node {
	if !p.grad || !slices.ContainsFunc(inputs, func(t *Tensor) bool { return t != nil && t.requires }) {
		return nil
	}
	p.sequence++
	n := p.nodes.one()
	*n = Node{p: p, name: name, at: p.here(), sequence: p.sequence, next: p.edges.some(len(inputs))}
	p.latest = n
	for i, t := range inputs {
		if t == nil || !t.requires {
			continue
		}
		target := t.gradEdge()
		target.refs++
		n.next[i] = edge{target, t.output, shaped{t.Layout, t.DType}}
	}
	return n
}

// gradEdge is the node that receives a tensor's gradient.
func (t *Tensor) gradEdge() *Node {
	if t.node != nil {
		return t.node
	}
	if t.sink == nil {
		// AccumulateGrad runs before every other ready node (torch/csrc/autograd/function.h, sequence_nr UINT64_MAX).
		t.sink = t.p.nodes.one()
		*t.sink = Node{p: t.p, name: "AccumulateGrad", at: t.p.here(), sequence: ^uint64(0), leaf: t, outputs: t.p.results.some(1)}
		t.sink.outputs[0] = shaped{t.Layout, t.DType}
		t.refs++ // the graph holds the leaf, the leaf not its accumulator (accumulate_grad.h)
	}
	return t.sink
}

// needs tells whether the gradient of input i is wanted (task_should_compute_output).
func (n *Node) needs(i int) bool { return n != nil && n.next[i].node != nil }

// save keeps tensors for backward. A nil node or tensor is ignored, so that formulas read without conditions.
func (n *Node) save(ts ...*Tensor) {
	if n == nil {
		return
	}
	if n.saved == nil {
		n.saved = n.p.slots.some(len(ts))[:0]
	}
	for _, t := range ts {
		if t == nil {
			continue
		}
		if h := n.p.hooks; len(h) > 0 {
			n.p.hostWork(Kept)
			n.saved = append(n.saved, h[len(h)-1].pack(t))
			continue
		}
		t.store.refs++
		n.saved = append(n.saved, slot{store: t.store})
	}
}

// hold keeps a tensor as an attribute of ctx, which backward does not let go: it lives until the graph does. Under reentrant checkpointing, which is what prepare_model_for_kbit_training
// turns on, the first pass makes no graph: what is held there counts as saved.
func (n *Node) hold(t *Tensor) {
	switch {
	case n == nil:
	case len(n.p.hooks) > 0:
		n.save(t)
	default:
		t.store.refs++
		n.held = append(n.held, t.store)
	}
}

// saveIf keeps a tensor only where a gradient needs it: the guard rule of tools/autograd/gen_variable_type.py.
func (n *Node) saveIf(needed bool, t *Tensor) {
	if needed {
		n.save(t)
	}
}

// out makes t an output of the node.
func (n *Node) out(t *Tensor) *Tensor {
	if n == nil || !t.DType.Floating() {
		return t
	}
	t.node, t.output, t.requires, t.leaf = n, len(n.outputs), true, false
	if n.outputs == nil { // most have one
		n.outputs = n.p.results.some(1)[:0]
	}
	n.outputs = append(n.outputs, shaped{t.Layout, t.DType})
	n.refs++
	return t
}

// backward sets the node's formula: gradients of the outputs in (nil where undefined), of the inputs out.
func (n *Node) backward(apply func(grads []*Tensor) []*Tensor) {
	if n != nil {
		n.apply = apply
	}
}

func (n *Node) unref() {
	n.refs--
	if n.refs > 0 {
		return
	}
	p := n.p
	p.freed = append(p.freed, n)
	if len(p.freed) > 1 {
		return // the loop of an outer call takes it apart
	}
	for len(p.freed) > 0 {
		dead := p.freed[len(p.freed)-1]
		dead.forget()
		for _, s := range dead.held {
			s.release()
		}
		next := dead.next
		dead.next = nil
		if dead.leaf != nil {
			dead.leaf.sink = nil
			dead.leaf.Release()
		}
		p.freed = p.freed[:len(p.freed)-1]
		for _, e := range next {
			if e.node == nil {
				continue
			}
			if e.node.refs--; e.node.refs == 0 {
				p.freed = append(p.freed, e.node)
			}
		}
	}
}

// forget releases what the node saved (release_variables).
func (n *Node) forget() {
	for _, s := range n.saved {
		switch {
		case s.frame != nil:
			s.frame.lose(s.index)
		case s.store != nil:
			s.store.release()
		}
	}
	n.saved = nil
	n.apply = nil
}

// Backward runs the graph behind a scalar (loss.backward()).
func (p *Process) Backward(loss *Tensor) {
	if !loss.requires {
		panic(refusal{errors.New("the loss does not depend on any trainable parameter")})
	}
	grad, thread := p.grad, p.thread
	p.grad, p.thread = false, 1
	p.op = "backward"
	seed := p.emptyOf(loss.DType, loss.Sizes...).Retain()
	seed.Retain() // Python's own reference (torch.autograd.backward, grad_tensors) lasts to the end
	p.runEngine(loss.gradEdge(), loss.output, seed)
	seed.Release()
	p.grad, p.thread = grad, thread
}

func (p *Process) runEngine(root *Node, output int, seed *Tensor) {
	p.countDependencies(root)
	root.buffer = make([]*Tensor, len(root.outputs))
	root.buffer[output] = seed
	ready := &nodeHeap{}
	ready.push(root)
	for ready.len() > 0 {
		n := ready.pop()
		p.enter(n.at)
		p.evaluate(n, ready)
		p.pop()
	}
}

// countDependencies counts for every reachable node how many others hand it gradients.
func (p *Process) countDependencies(root *Node) {
	p.sequence++
	mark := p.sequence
	root.visit, root.pending = mark, 0
	stack := []*Node{root}
	for len(stack) > 0 {
		n := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		for _, e := range n.next {
			if e.node == nil {
				continue
			}
			if e.node.visit != mark {
				e.node.visit, e.node.pending, e.node.buffer = mark, 0, nil
				stack = append(stack, e.node)
			}
			e.node.pending++
		}
	}
}

// evaluate runs one node. Its incoming gradients live until its outputs have been checked, its saved tensors
// a moment longer; only then do the outputs reach the next nodes (torch/csrc/autograd/engine.cpp, evaluate_function).
func (p *Process) evaluate(n *Node, ready *nodeHeap) {
	grads := n.buffer
	n.buffer = nil
	if n.leaf != nil {
		p.accumulate(n, grads[0])
		return
	}
	if n.apply == nil {
		panic(fault("backward through %s a second time", n.name))
	}
	p.op = n.name
	p.hostWork(Function)
	unpacked := n.unpack()
	outs := n.apply(grads)
	for _, o := range outs {
		if o != nil {
			o.Retain()
		}
	}
	for _, s := range unpacked {
		s.release()
	}
	for i := range outs {
		outs[i] = p.check(outs[i], n.next[i])
	}
	for _, g := range grads {
		if g != nil {
			g.Release()
		}
	}
	if !p.retainGraph {
		n.forget()
	}
	for i, e := range n.next {
		if e.node != nil {
			p.handIn(e, outs[i], ready)
		}
	}
}

// unpack brings back what checkpoints dropped or the host holds; such tensors die when the node's function returns.
func (n *Node) unpack() []*storage {
	var out []*storage
	for _, s := range n.saved {
		if s.frame != nil || s.away != nil {
			out = append(out, n.p.take(s))
		}
	}
	return out
}

// take brings back what is not on the card.
func (p *Process) take(s slot) *storage {
	if s.away != nil {
		return p.bring(s.away)
	}
	return s.frame.take(s.index)
}

// check is validate_outputs: a gradient is summed over broadcast dimensions, then cast to the input's type.
func (p *Process) check(g *Tensor, e edge) *Tensor {
	if g == nil {
		return nil
	}
	if e.node == nil {
		g.Release()
		return nil
	}
	if !g.Same(e.want.layout.Sizes) {
		s := p.sumTo(g, e.want.layout.Sizes).Retain()
		g.Release()
		g = s
	}
	if g.DType != e.want.dtype {
		c := p.empty(g.Like(), e.want.dtype).Retain()
		p.convert(g, c)
		g.Release()
		g = c
	}
	return g
}

// handIn adds a gradient to the buffer of the next node (torch/csrc/autograd/input_buffer.cpp). The sum is in place
// only where the waiting gradient is dense, unshared and no view: a view made in backward holds its base.
func (p *Process) handIn(e edge, g *Tensor, ready *nodeHeap) {
	n := e.node
	if n.buffer == nil {
		n.buffer = p.grads.some(len(n.outputs))
	}
	if g != nil {
		n.buffer[e.index] = p.addGrad(n.buffer[e.index], g)
	}
	if n.pending--; n.pending == 0 {
		ready.push(n)
	}
}

func (p *Process) addGrad(waiting, g *Tensor) *Tensor {
	if waiting == nil {
		return g
	}
	p.observe("aten::add", g.DType, float64(g.Numel()), 2*g.Bytes(), g.Bytes())
	if waiting.refs == 1 && waiting.store.refs == 1 && !waiting.view && waiting.Dense() {
		g.Release()
		return waiting
	}
	sum := p.empty(waiting.Like(), tensor.Promote(waiting.DType, g.DType)).Retain()
	waiting.Release()
	g.Release()
	return sum
}

// accumulate is AccumulateGrad: a leaf takes over a gradient that nobody else refers to and whose strides are its own,
// else it keeps a clone; a gradient that is there already is added to in place (accumulate_grad.h).
func (p *Process) accumulate(n *Node, g *Tensor) {
	leaf := n.leaf
	if g == nil {
		return
	}
	p.op = "grad"
	p.hostWork(Accumulated)
	switch {
	case leaf.grad != nil:
		p.observe("aten::add_", g.DType, float64(g.Numel()), 2*g.Bytes(), g.Bytes())
		g.Release()
		return
	case g.refs == 1 && slices.Equal(g.Strides, leaf.Strides):
		leaf.grad = g
		g.view = false
	default:
		leaf.grad = p.empty(leaf.Layout, g.DType).Retain()
		p.observe("aten::clone", g.DType, 0, stored(g), g.Bytes())
		g.Release()
	}
	if leaf.Name != "" {
		leaf.grad.store.claim(tape.Gradients, leaf.Name, "grad")
	}
	if p.accumulated != nil {
		p.accumulated(leaf)
	}
}

// nodeHeap gives the node with the highest sequence number first.
type nodeHeap struct{ nodes []*Node }

func (h *nodeHeap) len() int { return len(h.nodes) }

func (h *nodeHeap) push(n *Node) {
	h.nodes = append(h.nodes, n)
	for i := len(h.nodes) - 1; i > 0; {
		up := (i - 1) / 2
		if h.nodes[up].sequence >= h.nodes[i].sequence {
			return
		}
		h.nodes[up], h.nodes[i] = h.nodes[i], h.nodes[up]
		i = up
	}
}

func (h *nodeHeap) pop() *Node {
	top := h.nodes[0]
	last := len(h.nodes) - 1
	h.nodes[0] = h.nodes[last]
	h.nodes = h.nodes[:last]
	for i := 0; ; {
		child := 2*i + 1
		if child >= last {
			return top
		}
		if child+1 < last && h.nodes[child+1].sequence > h.nodes[child].sequence {
			child++
		}
		if h.nodes[i].sequence >= h.nodes[child].sequence {
			return top
		}
		h.nodes[i], h.nodes[child] = h.nodes[child], h.nodes[i]
		i = child
	}
}
