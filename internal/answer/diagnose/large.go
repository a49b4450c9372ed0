package diagnose

import (
	"fmt"
	"strings"

	"github.com/plimsoll/plimsoll/internal/answer/report"
	"github.com/plimsoll/plimsoll/internal/evidence/callsite"
	"github.com/plimsoll/plimsoll/internal/memory/tape"
	"github.com/plimsoll/plimsoll/internal/units"
	"github.com/plimsoll/plimsoll/snapshot"
)

// largeTensors is the largest tensor of a step, and those at least half as large, the failing request included.
type largeTensors struct {
	largest, sum units.Bytes
	count        int
	ids          []int
	stacks       []snapshot.StackID // oldest first
	request      bool
	layer        bool // the largest comes from a layer of the model
}

// fewLarge is how many tensors of the largest size one computation holds at once: the operands and results of a chain of operators. Layers hold more.
const fewLarge = 6

// oneLargeTensor: a single tensor, or a few of its size from a chain of operators, far larger than everything else a step makes: every element paired with every other, a class
// for every element, a whole data set at once. No layer of the model makes them.
func oneLargeTensor(c *Case) (claim, bool) {
	if c.OOM == nil || c.OOM.Phase == callsite.Load || c.OOM.Phase == callsite.Optimizer || c.OOM.Phase == callsite.Save || c.betterThanLarge() {
		return claim{}, false
	}
	if !c.Certain {
		return c.largeBySize()
	}
	big := c.largeOfStep()
	where := c.places(big.stacks...)
	if len(where) == 0 || big.layer || big.count > fewLarge || 8*big.largest < c.OOM.Limit.Bytes || 4*big.sum < c.InUse+c.OOM.Request {
		return claim{}, false
	}
	for _, s := range big.stacks {
		if o := c.Origins.Of(s); o.Gather || o.Parallel {
			return claim{}, false
		}
	}
	undo := change{never: big.ids, request: big.request}
	f := claim{without: undo, Finding: report.Finding{
		ID: "one-large-tensor", Severity: report.Error, Confidence: 0.85, Bytes: big.sum, Where: where,
		Title: fmt.Sprintf("tensors of up to %s, far larger than anything else in the step", big.largest),
		Evidence: []string{
			fmt.Sprintf("%s in %s, the request that failed included where it is one of them; no layer of the model makes them, and nothing else in this step is half as large", big.sum, tensors(big.count)),
			"such sizes come from pairing every element with every other (x[:, None] - x[None]), from one-hot encodings over many classes, or from a whole dataset at once",
			"halving the batch leaves a half or a quarter of it: a tensor that pairs samples is quadratic in the batch; note that a loss that compares samples changes with the batch",
		},
	}}
	if side := square(big.largest); side > 0 {
		f.Evidence = append(f.Evidence, fmt.Sprintf("%s is exactly %s × %s numbers of 4 bytes", big.largest, units.Count(side), units.Count(side)))
	}
	f.remedy(saving(big.sum*3/4, "compute it in chunks over one dimension, or with an operator that never holds it (torch.cdist, F.cross_entropy with class indices, F.scaled_dot_product_attention)"), change{saves: big.sum * 3 / 4})
	return f, true
}

// largeBySize tells few tensors that take most of the card by their sizes alone, where no stacks were recorded: the request is larger than all there is, or stands beside others of its kind.
// A join of many small ones (torch.cat) asks for as much, too, but has none of its size beside it.
func (c *Case) largeBySize() (claim, bool) {
	ids, sum := c.aliveWhere(func(id int) bool { return 2*c.Size(id) >= c.OOM.Request })
	all := c.InUse + c.OOM.Request
	alone := c.OOM.Request >= 4*c.InUse
	if 4*c.OOM.Request < c.OOM.Limit.Low && !alone || len(ids) >= fewLarge || !alone && (len(ids) == 0 || 10*(sum+c.OOM.Request) < 6*all) {
		return claim{}, false
	}
	undo := change{never: ids, request: true}
	f := claim{without: undo, Finding: report.Finding{
		ID: "one-large-tensor", Severity: report.Error, Confidence: 0.6, Bytes: sum + c.OOM.Request,
		Title: fmt.Sprintf("%s of up to %s take most of the card", tensors(len(ids)+1), max(c.OOM.Request, c.largestOf(ids))),
		Evidence: []string{
			fmt.Sprintf("%s with the request that failed; everything else in use takes %s", sum+c.OOM.Request, c.InUse-sum),
			"no stacks were recorded: a recording with stacks would show which line asks for them, and whether a shape is wrong or the batch too large",
		},
	}}
	if side := square(c.OOM.Request); side > 0 {
		f.Evidence = append(f.Evidence, fmt.Sprintf("%s is exactly %s × %s numbers of 4 bytes", c.OOM.Request, units.Count(side), units.Count(side)))
	}
	f.remedy(report.Remedy{Action: "see which line asks for them: plimsoll run -- python train.py", CheckedBy: report.ByRule, Command: "plimsoll run -- python train.py"}, change{})
	return f, true
}

// largestOf is the size of the largest of some allocations.
func (c *Case) largestOf(ids []int) units.Bytes {
	var most units.Bytes
	for _, id := range ids {
		most = max(most, c.Size(id))
	}
	return most
}

// inLayer tells a tensor that a layer of torch.nn makes: its size follows from the model and the batch as that of any other layer.
func (c *Case) inLayer(stack snapshot.StackID) bool {
	for _, id := range c.Origins.Stacks.Stack(stack) {
		f := &c.Origins.Stacks.Frames[id]
		if c.Origins.IsUser(id) {
			return false
		}
		if strings.Contains(f.File, "/nn/modules/") && f.Function != "_call_impl" && f.Function != "_wrapped_call_impl" {
			return !c.Origins.Of(stack).Logits
		}
	}
	return false
}

// betterThanLarge tells that another finding says more about the size: logits, scores of attention, a convolution's workspace; or that the allocator held
// enough for the request, in pieces.
func (c *Case) betterThanLarge() bool {
	for _, r := range []rule{absurdRequest, retriedWhileHeld, logits, attention, cudnnWorkspace, evalBatch} {
		if f, ok := r(c); ok && f.Severity == report.Error {
			return true
		}
	}
	for _, r := range []rule{growth, evalKept, joined} { // joining what was collected needs as much again
		if f, ok := r(c); ok && 4*f.Bytes >= c.InUse {
			return true
		}
	}
	return c.Frag != nil && c.Frag.Survives && c.OOM.Held-c.InUse >= c.OOM.Request
}

func one(b bool) int {
	if b {
		return 1
	}
	return 0
}

// largeOfStep finds the largest tensors that this step made. A data set that was there before the first batch is no part of a step.
func (c *Case) largeOfStep() largeTensors {
	var out largeTensors
	from, ids := c.stepBegin(), []int(nil)
	before := c.madeBeforeBatches()
	for id := len(c.Tape.Initial); id < len(c.Died); id++ {
		cat := c.Category[id]
		if int(c.Born[id]) <= from || !c.Alive(id, c.Instant) || before[id] || cat == tape.Parameters || cat == tape.Gradients || cat == tape.Optimizer || cat == tape.Workspace {
			continue
		}
		if ids = append(ids, id); c.Size(id) > out.largest {
			out.largest, out.layer = c.Size(id), c.inLayer(c.Stack[id])
		}
	}
	if c.OOM.Request > out.largest {
		out.layer = c.inLayer(c.OOM.Stack)
	}
	if out.largest = max(out.largest, c.OOM.Request); 2*c.OOM.Request >= out.largest {
		out.request, out.sum, out.count = true, c.OOM.Request, 1
	}
	for _, id := range ids {
		if 2*c.Size(id) >= out.largest && !c.inLayer(c.Stack[id]) {
			out.ids, out.stacks = append(out.ids, id), append(out.stacks, c.Stack[id])
			out.sum += c.Size(id)
			out.count++
		}
	}
	if out.request {
		out.stacks = append(out.stacks, c.OOM.Stack)
	}
	return out
}

// madeBeforeBatches lists the user's tensors from before the first call of the model that smaller ones followed before it: a data set, of which batches were taken.
func (c *Case) madeBeforeBatches() map[int]bool {
	var made []int
	for i := range c.Tape.Events {
		e := &c.Tape.Events[i]
		if e.Kind != tape.Alloc {
			continue
		}
		switch c.Phase[e.ID] {
		case callsite.Forward, callsite.Backward:
			out := map[int]bool{}
			for k, id := range made {
				for _, later := range made[k+1:] {
					if c.Stack[later] != c.Stack[id] && 2*c.Size(later) <= c.Size(id) && c.Size(later) >= units.KiB {
						out[id] = true
						break
					}
				}
			}
			return out
		case callsite.User:
			if made = append(made, int(e.ID)); len(made) > 1<<12 {
				return nil
			}
		}
	}
	return nil
}
