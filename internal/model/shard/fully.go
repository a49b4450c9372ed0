package shard

import (
	"slices"
	"strings"

	"github.com/plimsoll/plimsoll/internal/memory/tape"
	"github.com/plimsoll/plimsoll/internal/torch"
	"github.com/plimsoll/plimsoll/internal/units"
)

// Streams of a rank under fully_shard. Blocks of one are never reused by another, so what each held at its peak stays reserved: all-gather buffers
// (all_gather_copy_in_stream) and reduced gradients (reduce_scatter_stream) come on top of what the model's own stream holds at its peak.
// https://github.com/pytorch/pytorch/blob/v2.11.0/torch/distributed/fsdp/_fully_shard/_fsdp_param_group.py#L59
const (
	onCompute = iota
	onGather
	onReduce
)

// Fully says how fully_shard (FSDP2) is applied to a model.
type Fully struct {
	Ranks  int
	Policy bool // a MixedPrecisionPolicy: the tape's parameters are gathered copies in 16 bits; shards, their state and the reduction are fp32
	Micro  int  // micro-batches of a step, each with a reduction; 0 is 1. The tape has one
	// Apart are modules outside of layers that are units of their own, by their paths; the others are the root's, which is never resharded after forward. Nor is
	// the last of these units: backward begins with it.
	Apart [][]string
	// KeepLast: the last unit before the root is not resharded after forward.
	KeepLast bool
	// FromHost: the whole model comes from the host, unit by unit, before it is cut; else it is created in shards (on the meta device first).
	FromHost bool
}

// unit is one call of fully_shard: parameters that are gathered and reduced together.
type unit struct {
	name     string
	layer    bool
	params   []units.Bytes // of the gathered tensors
	keep     bool          // stays gathered after forward
	gathered []uint32      // while it is: one allocation for each parameter
	pending  int64         // the all-gather's output between unshard and wait_for_unshard; -1: none
	done     bool          // its turn in the running pass is over
	grads    []live        // of gathered parameters, not reduced yet
	reduced  int64         // the sharded gradients: one allocation; -1: none
	left     int           // gradients of the one-card tape that zero_grad has not released yet
}

type live struct {
	id   uint32
	size units.Bytes
}

const none = int64(-1)

// rewriting makes the tape of a rank, event by event.
type rewriting struct {
	f     Fully
	in    *tape.Tape
	out   *tape.Tape
	ids   []int64  // of the old tape's allocations; none: let go, or replaced by something of the unit's
	at    []uint32 // where the new tape's allocations are in it
	extra bool     // an additional micro-batch runs
	owner map[tape.Owner]uint32
	unit  map[string]*unit
	all   []*unit
	of    []*unit // by owner of the old tape; nil: not the model's
	root  *unit
	sizes map[units.Bytes]bool // of whole parameters

	phase   string
	running *unit
	order   []*unit // post_forward_order
	held    int64   // the all-gather's output that forward frees after the next copy-out
	input   int64   // the reduce-scatter's input that the next reduction frees
	last    *unit   // of the layers
}

// Rank is the tape of one rank under fully_shard, from the tape of the same step on one card: parameters in shards, gathered for each unit before its
// forward and backward, gradients reduced after it, each buffer on the stream that fully_shard allocates it on and for as long as it lives there.
// https://github.com/pytorch/pytorch/blob/v2.11.0/torch/distributed/fsdp/_fully_shard/_fsdp_collectives.py#L247 (foreach_all_gather, foreach_reduce)
func (f Fully) Rank(t *tape.Tape) *tape.Tape {
	r := &rewriting{
		f: f, in: t, owner: map[tape.Owner]uint32{}, unit: map[string]*unit{}, sizes: map[units.Bytes]bool{}, held: none, input: none,
		out: &tape.Tape{Streams: []uint64{0, 1, 2}, Pools: t.Pools, Owners: slices.Clone(t.Owners), Moments: t.Moments, Events: make([]tape.Event, 0, len(t.Events)*5/4)},
		ids: make([]int64, t.Allocs),
	}
	r.root = r.named("")
	r.findUnits()
	for i, e := range t.Events {
		if f.Micro > 1 && e.Kind == tape.Mark && t.Moments[e.Owner].Phase == torch.PhaseForward {
			r.again(i)
		}
		r.event(e)
	}
	return r.out
}

// unitName is the unit a module belongs to: its layer, one of those apart, or the root.
func (f Fully) unitName(module string) string {
	if layer := layerOf(module); layer != "" {
		return layer
	}
	for _, together := range f.Apart {
		for _, name := range together {
			if module == name || strings.HasPrefix(module, name+".") {
				return together[0]
			}
		}
	}
	return ""
}

func (r *rewriting) named(name string) *unit {
	u := r.unit[name]
	if u == nil {
		u = &unit{name: name, pending: none, reduced: none}
		r.unit[name] = u
		r.all = append(r.all, u)
	}
	return u
}

// findUnits reads the units off the parameters of the old tape, in the order they were made.
func (r *rewriting) findUnits() {
	parameter := make([]bool, len(r.in.Owners))
	for i, o := range r.in.Owners {
		parameter[i] = whole(o)
	}
	gone := map[uint32]bool{} // of tied layers: replaced while the model was made
	for _, e := range r.in.Events {
		if e.Kind == tape.Free && parameter[e.Owner] {
			gone[e.ID] = true
		}
	}
	for _, e := range r.in.Events {
		if e.Kind != tape.Alloc || !parameter[e.Owner] || gone[e.ID] {
			continue
		}
		o := r.in.Owners[e.Owner]
		u := r.named(r.f.unitName(o.Module))
		u.params = append(u.params, e.Size)
		r.sizes[e.Size] = true
		if layerOf(o.Module) != "" {
			u.layer, r.last = true, u
		}
	}
	r.of = make([]*unit, len(r.in.Owners))
	for i, o := range r.in.Owners {
		if o.Category != tape.Inputs {
			r.of[i] = r.named(r.f.unitName(o.Module))
		}
	}
	r.root.keep = true
	if n := len(r.f.Apart); n > 0 {
		r.named(r.f.Apart[n-1][0]).keep = true
	}
	if r.last != nil && r.f.KeepLast {
		r.last.keep = true
	}
}

// whole tells that an allocation is a parameter.
func whole(o tape.Owner) bool { return o.Category == tape.Parameters && o.Op == "parameter" }

// share is a rank's part of some bytes.
func (f Fully) share(b units.Bytes) units.Bytes {
	return (b + units.Bytes(f.Ranks) - 1) / units.Bytes(f.Ranks)
}

// kept is a rank's part of a parameter, or of what is kept for it.
func (f Fully) kept(b units.Bytes) units.Bytes {
	if f.Policy {
		b *= 2
	}
	return f.share(b)
}

func (r *rewriting) alloc(stream uint16, size units.Bytes, owner tape.Owner) uint32 {
	i, ok := r.owner[owner]
	if !ok {
		i = uint32(len(r.out.Owners))
		r.out.Owners = append(r.out.Owners, owner)
		r.owner[owner] = i
	}
	return r.allocFor(stream, size, i)
}

// allocFor is alloc for an owner by its place.
func (r *rewriting) allocFor(stream uint16, size units.Bytes, i uint32) uint32 {
	id := uint32(r.out.Allocs)
	r.out.Allocs++
	r.at = append(r.at, uint32(len(r.out.Events)))
	r.out.Events = append(r.out.Events, tape.Event{Kind: tape.Alloc, Stream: stream, Owner: i, ID: id, Size: max(size, 1)})
	return id
}

func (r *rewriting) free(id int64) {
	if id == none {
		return
	}
	e := r.out.Events[r.at[id]]
	e.Kind, e.Elastic = tape.Free, false
	r.out.Events = append(r.out.Events, e)
}

func (r *rewriting) event(e tape.Event) {
	switch e.Kind {
	case tape.Mark:
		r.mark(e)
	case tape.Alloc:
		r.allocated(e)
	case tape.Free, tape.FreeCompleted:
		r.freed(e)
	default:
		r.out.Events = append(r.out.Events, e)
	}
}

func (r *rewriting) mark(e tape.Event) {
	was := r.phase
	r.phase = r.in.Moments[e.Owner].Phase
	switch {
	case was == torch.PhaseLoad && r.f.FromHost:
		r.cutOnCard()
	case was == torch.PhaseForward:
		r.endForward()
	case was == torch.PhaseBackward:
		r.endBackward()
	}
	if was != r.phase {
		r.running = nil
		for _, u := range r.all {
			u.done = false
		}
	}
	r.out.Events = append(r.out.Events, e)
	if r.phase == torch.PhaseBackward && len(r.root.params) > 0 { // the root's hook is on the loss: it prefetches the last unit
		r.prefetch(r.root)
	}
}

// allocated handles a request of the old tape: what is a rank's part becomes smaller, and a request of another unit begins that unit's turn.
func (r *rewriting) allocated(e tape.Event) {
	o := r.in.Owners[e.Owner]
	u := r.of[e.Owner]
	size := e.Size
	switch {
	case whole(o):
		size = r.f.kept(size)
	case o.Category == tape.Optimizer && r.phase != torch.PhaseForward && size > 8:
		if r.sizes[size] {
			size = r.f.kept(size)
		} else {
			size = r.f.share(size)
		}
	case u != nil && o.Category != tape.Workspace && r.phase == torch.PhaseForward:
		r.forward(u)
	case u != nil && o.Category != tape.Workspace && r.phase == torch.PhaseBackward:
		r.backward(u)
	}
	id := r.allocFor(onCompute, size, e.Owner) // the new tape begins with the old one's owners
	r.out.Events[len(r.out.Events)-1].Elastic = e.Elastic
	r.ids[e.ID] = int64(id)
	if o.Category == tape.Gradients {
		u.grads = append(u.grads, live{id, e.Size})
		r.ids[e.ID] = none
		if !r.extra {
			u.left++
		}
	}
}

func (r *rewriting) freed(e tape.Event) {
	if r.in.Owners[e.Owner].Category != tape.Gradients {
		r.free(r.ids[e.ID])
		r.ids[e.ID] = none
		return
	}
	u := r.of[e.Owner]
	if u.left--; u.left == 0 {
		r.free(u.reduced)
		u.reduced = none
	}
}

// cutOnCard is fully_shard on a model on the host: each unit's parameters are moved to the card whole and let go once their shards exist
// (https://github.com/pytorch/pytorch/blob/v2.11.0/torch/distributed/fsdp/_fully_shard/_fsdp_init.py, _move_states_to_device). The shards exist already here;
// what matters is the memory that stays cached.
func (r *rewriting) cutOnCard() {
	for _, u := range append(slices.Clone(r.all[1:]), r.root) {
		var ids []int64
		for _, b := range u.params {
			if r.f.Policy {
				b *= 2
			}
			ids = append(ids, int64(r.alloc(onCompute, b, tape.Owner{Category: tape.Parameters, Module: u.name, Op: "before it is cut"})))
		}
		for _, id := range ids {
			r.free(id)
		}
	}
}

// forward gives a unit its turn in the forward pass.
func (r *rewriting) forward(u *unit) {
	if r.running == nil && u != r.root { // the root's pre_forward comes first
		r.forward(r.root)
	}
	if u == r.running {
		return
	}
	r.leaveForward()
	r.running = u
	if u == r.root && len(u.params) == 0 && len(r.order) > 0 { // what follows the last unit is the caller's: the root's post_forward has run
		r.letGather()
	}
	if u.done || len(u.params) == 0 {
		return
	}
	r.unshard(u)
	r.copyOut(u, true)
}

// leaveForward is post_forward of the unit that ran.
func (r *rewriting) leaveForward() {
	u := r.running
	if u == nil || u == r.root || u.done || len(u.params) == 0 {
		return
	}
	u.done = true
	if !u.keep {
		r.reshard(u)
	}
	r.order = append(r.order, u)
}

// endForward is the root's post_forward.
func (r *rewriting) endForward() {
	r.leaveForward()
	r.letGather()
	if len(r.root.params) > 0 {
		r.order = append(r.order, r.root)
	}
}

func (r *rewriting) letGather() {
	r.free(r.held)
	r.held = none
}

// unshard asks for the all-gather: a copy of the shards in the policy's type, and the output (foreach_all_gather).
func (r *rewriting) unshard(u *unit) {
	if u.gathered != nil || u.pending != none || len(u.params) == 0 {
		return
	}
	var mine units.Bytes
	for _, b := range u.params {
		mine += r.f.share(b)
	}
	owner := tape.Owner{Category: tape.Other, Module: u.name, Op: "all-gather"}
	copied := none
	if r.f.Policy {
		copied = int64(r.alloc(onGather, mine, owner))
	}
	u.pending = int64(r.alloc(onGather, mine*units.Bytes(r.f.Ranks), owner))
	r.free(copied)
}

// copyOut is wait_for_unshard: the gathered parameters get memory of the model's stream. In forward the all-gather's output lives until the next copy-out.
func (r *rewriting) copyOut(u *unit, forward bool) {
	if u.pending == none {
		return
	}
	if forward {
		r.letGather()
	}
	for _, b := range u.params {
		u.gathered = append(u.gathered, r.alloc(onCompute, r.f.share(b)*units.Bytes(r.f.Ranks), tape.Owner{Category: tape.Parameters, Module: u.name, Op: "gathered"}))
	}
	if forward {
		r.held = u.pending
	} else {
		r.free(u.pending)
	}
	u.pending = none
}

func (r *rewriting) reshard(u *unit) {
	for _, id := range u.gathered {
		r.free(int64(id))
	}
	u.gathered = nil
}

// backward gives a unit its turn in the backward pass.
func (r *rewriting) backward(u *unit) {
	if u == r.running {
		return
	}
	if was := r.running; was != nil && was != r.root && !was.inputless(r) && !was.done {
		was.done = true
		r.reduce(was)
	}
	r.running = u
	if u.done || len(u.params) == 0 || u == r.root {
		return
	}
	r.unshard(u)
	r.copyOut(u, false)
	r.prefetch(u)
}

// inputless tells that a unit's inputs have no gradient: its post_backward runs at the end (_root_post_backward_final_callback).
func (u *unit) inputless(r *rewriting) bool { return len(r.order) > 0 && u == r.order[0] && !u.layer }

// prefetch asks for the unit that ran before another in forward (_backward_prefetch).
func (r *rewriting) prefetch(u *unit) {
	if i := slices.Index(r.order, u); i > 0 {
		r.unshard(r.order[i-1])
	}
}

// reduce is post_backward: parameters are let go, gradients are copied into one input of the reduction and let go, and the shards of them arrive.
func (r *rewriting) reduce(u *unit) {
	r.reshard(u)
	if len(u.grads) == 0 {
		return
	}
	r.free(r.input)
	var sum, mine units.Bytes
	for _, g := range u.grads {
		b := r.f.share(g.size)
		if r.f.Policy {
			b *= 2
		}
		mine += b
	}
	sum = mine * units.Bytes(r.f.Ranks)
	r.input = int64(r.alloc(onCompute, sum, tape.Owner{Category: tape.Other, Module: u.name, Op: "reduce-scatter"}))
	for _, g := range u.grads {
		r.free(int64(g.id))
	}
	u.grads = nil
	out := int64(r.alloc(onReduce, mine, tape.Owner{Category: tape.Gradients, Module: u.name, Op: "sharded"}))
	if u.reduced == none {
		u.reduced = out
		return
	}
	r.free(out) // added to the shards that are there
}

// endBackward is the final callback: units whose inputs have no gradient, the root first, and the last input of a reduction.
func (r *rewriting) endBackward() {
	r.running = nil
	for _, u := range r.all {
		if len(u.grads) > 0 || u.gathered != nil {
			r.reduce(u)
		}
		r.free(u.pending)
		u.pending = none
	}
	r.free(r.input)
	r.input = none
	r.order = nil
}

// again runs the passes of the step that begins at an event once more before they run: all but the first micro-batch of a step find sharded gradients to add
// theirs to, and further ones find the same memory as the second. What it leaves behind beside its gradients is let go.
func (r *rewriting) again(from int) {
	r.extra = true
	made := make([]uint32, 0, len(r.in.Events)/4)
	for _, e := range r.in.Events[from:] {
		if e.Kind == tape.Mark && r.in.Moments[e.Owner].Phase == torch.PhaseOptimizer {
			break
		}
		r.event(e)
		if e.Kind == tape.Alloc {
			made = append(made, e.ID)
		}
	}
	for _, id := range made {
		r.free(r.ids[id])
		r.ids[id] = none
	}
	r.extra = false
}
