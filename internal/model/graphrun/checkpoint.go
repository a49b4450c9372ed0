package graphrun

import (
	"maps"
	"slices"

	"github.com/plimsoll/plimsoll/internal/model/eager"
)

// region tells whether node i opens a call of a checkpointed module: the level of that call among the node's, and its last node.
func (r *graphRun) region(i int) (level, to int, ok bool) {
	if len(r.spec.Checkpoint) == 0 {
		return 0, 0, false
	}
	calls := r.plan.nodes[i].calls
	for level, c := range calls {
		if !slices.Contains(r.spec.Checkpoint, r.plan.paths[c]) {
			continue
		}
		to = i
		for to+1 < len(r.plan.nodes) && slices.Contains(r.plan.nodes[to+1].calls, c) {
			to++
		}
		return level, to, true
	}
	return 0, 0, false
}

// checkpointed runs the nodes from…to, one call of a module, under torch.utils.checkpoint: the call itself is part of what runs again
// (transformers' GradientCheckpointingLayer, and checkpoint(block, x) in scripts).
func (r *graphRun) checkpointed(from, to, level int) {
	made, reads := r.span(from, to)
	outer := r.plan.nodes[from].calls[:level]
	r.open(outer)
	given := slices.Clone(r.vals)
	var results []int
	outs := r.p.Checkpoint(func() []*eager.Tensor {
		inner := &graphRun{Graph: r.Graph, p: r.p, vals: slices.Clone(given), keys: slices.Clone(outer), calls: make([]*eager.Call, level), made: made}
		defer inner.letGo() // also when the second run is stopped half-way
		c := r.p.Function()
		inner.nodes(from, to)
		inner.leave(level)
		results = results[:0]
		var alive []*eager.Tensor
		for v := range made {
			if inner.vals[v] != nil {
				results = append(results, v)
			}
		}
		slices.Sort(results)
		for _, v := range results {
			alive = append(alive, c.Let(inner.vals[v]))
		}
		inner.letGo()
		return c.ReturnAll(alive...)
	}, reads...)
	for i, v := range results {
		r.vals[v] = outs[i].Retain()
	}
	for i := from; i <= to; i++ {
		for _, v := range r.plan.nodes[i].dies {
			if !made[v] && r.vals[v] != nil {
				r.vals[v].Release()
				r.vals[v] = nil
			}
		}
	}
}

// span finds the values made by the nodes from…to, and the tensors from outside that they read: the call's arguments.
func (r *graphRun) span(from, to int) (made map[int]bool, reads []*eager.Tensor) {
	made = map[int]bool{}
	for i := from; i <= to; i++ {
		for _, a := range r.plan.nodes[i].Args {
			for _, v := range a.Values {
				if v >= 0 && !made[v] && r.vals[v] != nil && r.fixed[v] == nil && !slices.Contains(reads, r.vals[v]) {
					reads = append(reads, r.vals[v])
				}
			}
		}
		for _, v := range r.plan.nodes[i].Outputs {
			if v >= 0 {
				made[v] = true
			}
		}
	}
	return made, reads
}

// letGo releases what a checkpointed call still holds of its own, in the order it was numbered: every run does the same.
func (r *graphRun) letGo() {
	r.forgetSums("")
	for _, v := range slices.Sorted(maps.Keys(r.made)) {
		if t := r.vals[v]; t != nil {
			r.vals[v] = nil
			t.Release()
		}
	}
}
