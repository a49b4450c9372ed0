// Package attempt decides what to change when a run that shall fit has run out of memory.
//
// It takes the plan that just failed and the notes of the process that died and returns the next plan, with the reason in words. Plans only ever add to the one
// before, keep the training the same unless numerics may change, and end: when nothing is left to try, it says so.
// The decision is arithmetic on what was recorded; no memory is predicted here.
package attempt

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/plimsoll/plimsoll/internal/evidence/probenotes"
	"github.com/plimsoll/plimsoll/internal/torch"
	"github.com/plimsoll/plimsoll/internal/units"
)

// Plan is what a fitting run changes. The zero Plan changes nothing.
type Plan struct {
	Split         int    `json:"split,omitempty"`          // micro-batches per batch
	Chunk         int    `json:"chunk,omitempty"`          // parts of the batch that the model is called with, each recomputed in backward
	Checkpoint    bool   `json:"checkpoint,omitempty"`     // recompute repeated blocks in backward
	LoopOptimizer bool   `json:"loop_optimizer,omitempty"` // foreach=False
	Expandable    bool   `json:"expandable,omitempty"`     // expandable_segments:True
	Autocast      string `json:"autocast,omitempty"`       // "bf16"; changes numerics
	Losses        bool   `json:"losses,omitempty"`         // note the loss of every whole batch
}

// JSON is the plan as the probe reads it.
func (p Plan) JSON() string {
	data, err := json.Marshal(p)
	if err != nil {
		panic(err) // a struct of plain fields
	}
	return string(data)
}

// Variables are what the plan sets for the allocator, which reads them before Python starts. The name PYTORCH_CUDA_ALLOC_CONF is read by every version;
// PYTORCH_ALLOC_CONF is ignored for CUDA by 2.9.1.
func (p Plan) Variables(now func(name string) string) []string {
	const name = "PYTORCH_CUDA_ALLOC_CONF"
	conf := now(name)
	if !p.Expandable || strings.Contains(conf, "expandable_segments") {
		return nil
	}
	if conf != "" {
		conf += ","
	}
	return []string{name + "=" + conf + "expandable_segments:True"}
}

// Changes says in words what the plan changes.
func (p Plan) Changes(batch int) string {
	var words []string
	if p.Split > 1 && batch > 0 {
		words = append(words, fmt.Sprintf("micro-batch %d × %d", (batch+p.Split-1)/p.Split, p.Split))
	} else if p.Split > 1 {
		words = append(words, fmt.Sprintf("%d micro-batches per batch", p.Split))
	}
	if p.Chunk > 1 {
		words = append(words, fmt.Sprintf("the model called in %d parts, each recomputed in backward", p.Chunk))
	}
	for _, part := range []struct {
		on   bool
		word string
	}{
		{p.Checkpoint, "activation checkpointing"},
		{p.LoopOptimizer, "optimizer with foreach=False"},
		{p.Expandable, "expandable_segments:True"},
		{p.Autocast != "", "autocast " + p.Autocast + " (changes numerics)"},
	} {
		if part.on {
			words = append(words, part.word)
		}
	}
	if len(words) == 0 {
		return "unchanged"
	}
	return strings.Join(words, ", ")
}

// Limits bound what may be planned.
type Limits struct {
	NoSplit      bool // a split was refused: the script cannot honour it
	NoCheckpoint bool // so was checkpointing
	NoChunk      bool // so was calling the model in parts
	Numerics     bool // precision may change
	Nothing      bool // nothing may change: the decision is not this machine's alone
}

// margin is the part of the limit a plan leaves free: the request that failed was not the last of its step.
const margin = 10

// NextOf is the plan to try after the given one failed in several ranks: the one that asks for the smallest micro-batches, which serves all of them. It
// also gives the rank that asks for it.
func NextOf(plan Plan, dead []probenotes.Process, limits Limits) (Plan, string, probenotes.Process, bool) {
	best, reason, who, found := plan, "", probenotes.Process{}, false
	for _, p := range dead {
		next, why, ok := Next(plan, p, limits)
		if ok && (!found || next.Split > best.Split) {
			best, reason, who, found = next, why, p, true
		}
	}
	return best, reason, who, found
}

// Next is the plan to try after the given one failed in process p; false when nothing is left.
func Next(plan Plan, p probenotes.Process, limits Limits) (Plan, string, bool) {
	steps := []func(Plan, probenotes.Process, Limits) (Plan, string, bool){
		againstFragmentation, againstStepTemporaries, againstActivations, byHalves, inParts, withCheckpoints, loopOptimizer, withAutocast,
	}
	for _, step := range steps {
		if next, why, ok := step(plan, p, limits); ok {
			return next, why, true
		}
	}
	return plan, "", false
}

func lastOOM(p probenotes.Process) (probenotes.OOM, bool) {
	if len(p.OOMs) == 0 {
		return probenotes.OOM{}, false
	}
	return p.OOMs[len(p.OOMs)-1], true
}

// againstFragmentation: the request would have fitted into what PyTorch held unused, had it been in one piece.
func againstFragmentation(plan Plan, p probenotes.Process, _ Limits) (Plan, string, bool) {
	oom, ok := lastOOM(p)
	unused := oom.Reserved - oom.Allocated
	if !ok || plan.Expandable || unused < oom.Requested || unused < oom.Limit/margin {
		return plan, "", false
	}
	plan.Expandable = true
	return plan, fmt.Sprintf("%s was unused but in pieces when %s was requested", unused.Short(), oom.Requested.Short()), true
}

// againstStepTemporaries: Adam's foreach step holds temporaries as large as all parameters (torch/optim/adam.py).
func againstStepTemporaries(plan Plan, p probenotes.Process, _ Limits) (Plan, string, bool) {
	oom, ok := lastOOM(p)
	if !ok || oom.Phase != "optimizer" || plan.LoopOptimizer {
		return plan, "", false
	}
	plan.LoopOptimizer = true
	return plan, "the optimizer's step ran out", true
}

// againstActivations splits the batch so far that what grows with it fits beside what does not.
func againstActivations(plan Plan, p probenotes.Process, limits Limits) (Plan, string, bool) {
	oom, ok := lastOOM(p)
	batch := batchOf(p)
	if !ok || limits.NoSplit || batch < 2 {
		return plan, "", false
	}
	fixed := Steady(p)
	room := oom.Limit - oom.Limit/margin - fixed
	moving := oom.Allocated + oom.Requested - min(fixed, oom.Allocated)
	if room <= 0 {
		return plan, "", false // what does not depend on the batch fills the card
	}
	now := max(plan.Split, 1)
	want := float64(now) * float64(moving) / float64(room)
	split := nextDivisor(batch, max(now+1, int(want+0.999)))
	if split == 0 || split == now {
		return plan, "", false
	}
	plan.Split = split
	return plan, fmt.Sprintf("when it failed, %s grew with the batch and %s was free for it", moving.Short(), room.Short()), true
}

// inParts calls the model on fewer samples at a time, where no loader's batch can be split: the script draws its batches itself, or a split was refused.
func inParts(plan Plan, p probenotes.Process, limits Limits) (Plan, string, bool) {
	if limits.NoChunk || p.Fit == nil || p.Fit.ModelBatch < 2 || plan.Split > 1 || (batchOf(p) > 1 && !limits.NoSplit) {
		return plan, "", false
	}
	now := max(plan.Chunk, 1)
	want := 2 * now
	if oom, ok := lastOOM(p); ok {
		fixed := Steady(p)
		room := oom.Limit - oom.Limit/margin - fixed
		moving := oom.Allocated + oom.Requested - min(fixed, oom.Allocated)
		if room <= 0 {
			return plan, "", false
		}
		want = max(want, int(float64(now)*float64(moving)/float64(room)+0.999))
	}
	parts := nextDivisor(p.Fit.ModelBatch, want)
	if parts == 0 && now < p.Fit.ModelBatch {
		parts = p.Fit.ModelBatch
	}
	if parts <= now {
		return plan, "", false
	}
	plan.Chunk = parts
	return plan, "no DataLoader's batch can be split", true
}

func withCheckpoints(plan Plan, _ probenotes.Process, limits Limits) (Plan, string, bool) {
	if plan.Checkpoint || limits.NoCheckpoint {
		return plan, "", false
	}
	plan.Checkpoint = true
	return plan, "smaller micro-batches are not enough", true
}

// byHalves splits further when no failure was recorded that arithmetic could use: a library's error, or another allocator's.
func byHalves(plan Plan, p probenotes.Process, limits Limits) (Plan, string, bool) {
	_, recorded := lastOOM(p)
	split := nextDivisor(batchOf(p), max(plan.Split, 1)*2)
	if recorded || limits.NoSplit || split == 0 || split <= plan.Split {
		return plan, "", false
	}
	plan.Split = split
	return plan, "by how much is not known", true
}

func loopOptimizer(plan Plan, _ probenotes.Process, _ Limits) (Plan, string, bool) {
	if plan.LoopOptimizer {
		return plan, "", false
	}
	plan.LoopOptimizer, plan.Expandable = true, true
	return plan, "what is left to save without changing the training", true
}

func withAutocast(plan Plan, _ probenotes.Process, limits Limits) (Plan, string, bool) {
	if !limits.Numerics || plan.Autocast != "" {
		return plan, "", false
	}
	plan.Autocast = "bf16"
	return plan, "numerics may change", true
}

func batchOf(p probenotes.Process) int {
	if p.Fit != nil && p.Fit.Batch > 0 {
		return p.Fit.Batch
	}
	return p.Batch()
}

// nextDivisor is the smallest divisor of n that is at least k; n itself at the end, 0 beyond.
func nextDivisor(n, k int) int {
	for d := max(k, 1); d <= n; d++ {
		if n%d == 0 {
			return d
		}
	}
	return 0
}

// Steady is what every step holds whatever its batch: parameters, their gradients, the optimizer's state. The state
// is as large as the optimizer's table says.
func Steady(p probenotes.Process) units.Bytes {
	var total units.Bytes
	for _, o := range p.Optimizers {
		state := 2.0 // Adam's, for classes that are not known
		if known, ok := torch.ByClass(o.Class, o.Momentum); ok {
			state = known.StateShare()
		}
		total += 2*o.ParameterBytes + units.Bytes(state*float64(o.ParameterBytes))
	}
	return total
}
