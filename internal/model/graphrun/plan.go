package graphrun

import (
	"slices"
	"strings"

	"github.com/plimsoll/plimsoll/internal/model/exported"
)

// plan is what can be said of a graph before it runs: which operators eager execution runs at all, when values
// die, which module calls are open.
type plan struct {
	nodes   []planNode
	outputs []exported.Output // what eager execution returns
	used    []bool            // by value: somebody reads it
	atEnd   []int             // values that live until the program returns
	paths   []string          // module path by call
	maker   []int             // by value of a trace: the operator that makes it, or -1
	first   []int             // by call: the first value from outside that the call reads, or -1
	held    map[int]bool      // values that a module refers to until its next call
}

// planNode is an operator with what the plan adds.
type planNode struct {
	exported.Node
	calls   []int // module calls it runs in, outermost first
	dies    []int // values whose last reader it is
	forgets []int // values of the last forward that the module it opens lets go
	causal  bool  // attention whose stripped mask was a causal one
	gqa     bool  // attention whose repeated keys and values were stripped
	input   bool  // gives the result of the model's input embeddings
}

func newPlan(b *exported.Bound) *plan {
	p := &plan{used: make([]bool, len(b.Values))}
	for _, n := range b.Nodes {
		if !silent(&n) {
			n.Args = slices.Clone(n.Args)
			p.nodes = append(p.nodes, planNode{Node: n})
		} else if len(n.Dies) > 0 && len(p.nodes) > 0 {
			last := &p.nodes[len(p.nodes)-1]
			last.Dies = append(slices.Clone(last.Dies), n.Dies...)
		}
	}
	if b.Trace != nil {
		p.outputs = b.Outputs
		p.findCalls(b)
		p.takeDeaths(b)
		p.takeHeld(b)
		p.findInputs(b)
		return p
	}
	p.strip(b)
	p.outputs = slices.Clone(b.Outputs)
	p.unconvert(b)
	p.findCalls(b)
	p.fuse(b)
	p.findDeaths(b)
	return p
}

// silent operators compute sizes and check metadata; they touch no memory.
func silent(n *exported.Node) bool {
	return !slices.ContainsFunc(n.Outputs, func(v int) bool { return v >= 0 }) ||
		strings.HasPrefix(n.Target, "aten._assert") || strings.HasPrefix(n.Target, "aten.sym_") || strings.HasPrefix(n.Target, "_operator.")
}

// unconvert gives outputs back that a conversion inside the loss function has taken over: in the trace logits.float() was the
// logits itself, so the graph returns it; eager execution returns the logits (transformers, loss/loss_utils.py).
func (p *plan) unconvert(b *exported.Bound) {
	for i, o := range p.outputs {
		for _, n := range p.nodes {
			if !slices.Contains(n.Outputs, o.Value) || !strings.HasPrefix(n.Target, "aten.to.") || !inLoss(&n.Node) {
				continue
			}
			if from := n.Tensor("self"); from >= 0 && b.Values[from].DType == b.Values[o.Value].DType {
				p.outputs[i].Value = from
			}
		}
	}
}

// inLoss tells whether an operator belongs to transformers' loss functions, which convert logits to fp32
// (loss/loss_utils.py; stack traces end at the call of self.loss_function).
func inLoss(n *exported.Node) bool { return strings.Contains(n.Source.Code, "loss_function(") }

// findCalls numbers the module calls: neighbours with equal module stacks run in the same call.
func (p *plan) findCalls(b *exported.Bound) {
	var open []int
	var keys []string
	for i := range p.nodes {
		stack := b.Stacks[p.nodes[i].Stack]
		same := 0
		for same < len(open) && same < len(stack) && keys[same] == stack[same].Key {
			same++
		}
		open, keys = slices.Clone(open[:same]), keys[:same]
		for _, m := range stack[same:] {
			open = append(open, len(p.paths))
			keys = append(keys, m.Key)
			p.paths = append(p.paths, m.Path)
			p.first = append(p.first, -1)
		}
		p.nodes[i].calls = open
	}
}

// findDeaths applies Python's lifetimes: a value produced outside a module call and read inside it lives until the call
// returns, because the call holds its arguments; every other value dies at its last use.
func (p *plan) findDeaths(b *exported.Bound) {
	end := make([]int, len(p.paths))
	maker := make([]int, len(b.Values))
	for i := range maker {
		maker[i] = -1
	}
	for i := range p.nodes {
		for _, c := range p.nodes[i].calls {
			end[c] = i
		}
		for _, v := range p.nodes[i].Outputs {
			if v >= 0 {
				maker[v] = i
			}
		}
	}
	death := make([]int, len(b.Values))
	for i := range p.nodes {
		for _, a := range p.nodes[i].Args {
			for _, v := range a.Values {
				if v < 0 {
					continue
				}
				p.used[v] = true
				p.noteArgument(b, i, v, maker[v])
				if maker[v] >= 0 {
					death[v] = max(death[v], p.holdUntil(i, maker[v], end))
				}
			}
		}
	}
	for _, o := range p.outputs {
		if o.Value >= 0 && maker[o.Value] >= 0 {
			p.used[o.Value] = true
			death[o.Value] = len(p.nodes)
		}
	}
	for v, m := range maker {
		switch {
		case m < 0 || !p.used[v]:
		case death[v] == len(p.nodes):
			p.atEnd = append(p.atEnd, v)
		default:
			p.nodes[death[v]].dies = append(p.nodes[death[v]].dies, v)
		}
	}
}

// takeDeaths takes lifetimes as they were recorded: Python's own. A value that a call made and nobody read still lives until its name goes.
func (p *plan) takeDeaths(b *exported.Bound) {
	maker := make([]bool, len(b.Values))
	p.maker = slices.Repeat([]int{-1}, len(b.Values))
	gone := make([]bool, len(b.Values))
	for i := range p.nodes {
		for _, v := range p.nodes[i].Outputs {
			if v >= 0 {
				maker[v], p.maker[v] = true, i
			}
		}
		for _, a := range p.nodes[i].Args {
			for _, v := range a.Values {
				if v >= 0 {
					p.noteArgument(b, i, v, -1)
				}
			}
		}
		for _, v := range p.nodes[i].Dies {
			if maker[v] && !gone[v] {
				gone[v] = true
				p.used[v] = true
				p.nodes[i].dies = append(p.nodes[i].dies, v)
			}
		}
	}
	for _, o := range p.outputs {
		if o.Value >= 0 && maker[o.Value] && !gone[o.Value] {
			gone[o.Value], p.used[o.Value] = true, true
			p.atEnd = append(p.atEnd, o.Value)
		}
	}
	for v := range maker { // alive, and no part of what the model returns: nobody says when it goes
		if maker[v] && !gone[v] {
			p.used[v] = true
			p.atEnd = append(p.atEnd, v)
		}
	}
}

// findInputs finds the operators whose results are those of input embeddings: the last ones of their calls.
func (p *plan) findInputs(b *exported.Bound) {
	last := map[int]int{}
	for i := range p.nodes {
		for _, c := range p.nodes[i].calls {
			if slices.Contains(b.Trace.Embeddings, p.paths[c]) {
				last[c] = i
			}
		}
	}
	for _, i := range last {
		p.nodes[i].input = true
	}
}

// takeHeld finds what modules remember: the old value goes when the module's call begins, the new one comes with the operator that makes it.
func (p *plan) takeHeld(b *exported.Bound) {
	p.held = map[int]bool{}
	for v := range b.Values {
		if m := p.maker[v]; m >= 0 && slices.Contains(b.Trace.Held, b.Values[v].Name) {
			p.held[v] = true
			calls := p.nodes[m].calls
			for m > 0 && len(calls) > 0 && slices.Contains(p.nodes[m-1].calls, calls[len(calls)-1]) {
				m--
			}
			p.nodes[m].forgets = append(p.nodes[m].forgets, v)
		}
	}
}

// holdUntil is the node after which a use at node i lets a value made at node m go.
func (p *plan) holdUntil(i, m int, end []int) int {
	mine, its := p.nodes[i].calls, p.nodes[m].calls
	for level, c := range mine {
		if level >= len(its) || its[level] != c {
			return end[c]
		}
	}
	return i
}

// fused are modules whose forward is an autograd function of its own: it keeps its input and nothing of what it computes on the way.
// The trace shows its operators only.
var fused = []string{".BloomGelu"}

// fuse lets the operators of such a module run without gradient, and its last one stand for the function.
func (p *plan) fuse(b *exported.Bound) {
	for i := range p.nodes {
		n := &p.nodes[i]
		stack := b.Stacks[n.Stack]
		if len(stack) == 0 || !slices.ContainsFunc(fused, func(f string) bool { return strings.HasSuffix(stack[len(stack)-1].Class, f) }) {
			continue
		}
		first := i
		call := n.calls[len(n.calls)-1]
		for first > 0 && slices.Contains(p.nodes[first-1].calls, call) {
			first--
		}
		if i+1 < len(p.nodes) && slices.Contains(p.nodes[i+1].calls, call) {
			n.NoGrad = true
			continue
		}
		n.Target = "aten.gelu.default"
		n.Args = []exported.Arg{{Name: "self", Kind: exported.Tensor, Values: []int{p.nodes[first].Tensor("self")}}}
	}
}

// noteArgument remembers the first activation each call reads from outside: its input.
func (p *plan) noteArgument(b *exported.Bound, i, v, m int) {
	if role := b.Values[v].Role; role == exported.Parameter || role == exported.Buffer || role == exported.Constant {
		return
	}
	for level, c := range p.nodes[i].calls {
		outside := m < 0 || level >= len(p.nodes[m].calls) || p.nodes[m].calls[level] != c
		if outside && p.first[c] < 0 {
			p.first[c] = v
		}
	}
}

// strip removes what only exporting adds: boolean masks that eager execution skips, because nothing in them depends on the
// batch (transformers builds them while tracing only), and keys and values repeated for grouped-query attention, which
// eager execution leaves to the kernel (integrations/sdpa_attention.py, use_gqa_in_sdpa).
func (p *plan) strip(b *exported.Bound) {
	attends := func(n planNode) bool { return n.Target == sdpa }
	if !slices.ContainsFunc(p.nodes, attends) {
		return
	}
	maker := map[int]int{}
	for i := range p.nodes {
		for _, v := range p.nodes[i].Outputs {
			maker[v] = i
		}
	}
	before := p.countUses(b)
	for i := range p.nodes {
		n := &p.nodes[i]
		if n.Target != sdpa {
			continue
		}
		if m := n.Tensor("attn_mask"); m >= 0 && b.Values[m].DType == exported.Boolean {
			if ops, pure := p.ancestors(b, maker, m); pure {
				n.causal = ops["aten.le.Tensor"] || ops["aten.tril.default"] || ops["aten.ge.Tensor"]
				n.drop("attn_mask")
			}
		}
		if n.Tensor("attn_mask") < 0 {
			n.ungroup(p, b, maker)
		}
	}
	p.dropDead(b, before)
}

const sdpa = "aten.scaled_dot_product_attention.default"

func (n *planNode) drop(name string) {
	n.Args = slices.DeleteFunc(n.Args, func(a exported.Arg) bool { return a.Name == name })
}

// ancestors collects the operators behind a value and tells whether none of them reads a batch or a parameter.
func (p *plan) ancestors(b *exported.Bound, maker map[int]int, v int) (ops map[string]bool, pure bool) {
	ops, pure = map[string]bool{}, true
	seen := map[int]bool{v: true}
	todo := []int{v}
	for len(todo) > 0 {
		at := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		i, made := maker[at]
		if !made {
			pure = false
			continue
		}
		n := &p.nodes[i]
		ops[n.Target] = true
		if strings.HasPrefix(n.Target, "aten.new_") || strings.HasSuffix(n.Target, "_like.default") {
			continue // reads only the type and device of its argument
		}
		for _, a := range n.Args {
			for _, x := range a.Values {
				if x >= 0 && !seen[x] {
					seen[x] = true
					todo = append(todo, x)
				}
			}
		}
	}
	return ops, pure
}

// ungroup replaces repeated keys and values by what was repeated.
func (n *planNode) ungroup(p *plan, b *exported.Bound, maker map[int]int) {
	key, kOK := p.repeated(b, maker, n.Tensor("key"))
	value, vOK := p.repeated(b, maker, n.Tensor("value"))
	if !kOK || !vOK {
		return
	}
	n.gqa = true
	for i, a := range n.Args {
		switch a.Name {
		case "key":
			n.Args[i].Values = []int{key}
		case "value":
			n.Args[i].Values = []int{value}
		}
	}
}

// repeated follows repeat_kv backwards: [b, kv, s, d] → unsqueeze → expand → reshape to [b, kv·n, s, d].
func (p *plan) repeated(b *exported.Bound, maker map[int]int, v int) (int, bool) {
	if v < 0 {
		return v, false
	}
	want := b.Dims(b.Values[v].Sizes)
	expanded := false
	for at := v; ; {
		i, ok := maker[at]
		if !ok {
			return v, false
		}
		n := &p.nodes[i]
		switch n.Target {
		case "aten.expand.default":
			expanded = true
		case "aten.reshape.default", "aten.view.default", "aten.unsqueeze.default", "aten.slice.Tensor", "aten.clone.default", "aten.contiguous.default", "aten._unsafe_view.default":
		default:
			return v, false
		}
		at = n.Tensor("self")
		if at < 0 {
			return v, false
		}
		have := b.Dims(b.Values[at].Sizes)
		if expanded && len(have) == 4 && len(want) == 4 {
			return at, have[1] < want[1] && have[2] == want[2]
		}
	}
}

func (p *plan) countUses(b *exported.Bound) []int {
	uses := make([]int, len(b.Values))
	for i := range p.nodes {
		for _, a := range p.nodes[i].Args {
			for _, v := range a.Values {
				if v >= 0 {
					uses[v]++
				}
			}
		}
	}
	for _, o := range b.Outputs {
		if o.Value >= 0 {
			uses[o.Value]++
		}
	}
	return uses
}

// dropDead removes operators that were read before stripping and are read by nobody now.
func (p *plan) dropDead(b *exported.Bound, before []int) {
	for {
		now := p.countUses(b)
		dead := func(n planNode) bool {
			lost := false
			for _, v := range n.Outputs {
				if v >= 0 && now[v] > 0 {
					return false
				}
				lost = lost || v >= 0 && before[v] > 0
			}
			return lost
		}
		if !slices.ContainsFunc(p.nodes, dead) {
			return
		}
		p.nodes = slices.DeleteFunc(p.nodes, dead)
	}
}
