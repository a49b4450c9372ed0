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

// lineUse is what one line of the user's has on the card, the failing request included.
type lineUse struct {
	largest, sum units.Bytes
	ids          []int
	stack        snapshot.StackID
	request      bool
}

// oneLargeTensor: a single tensor, or a few from one line, far larger than everything else a step makes: every element paired with every other, a class
// for every element, a whole data set at once. It needs no list of causes, only sizes: the largest from that line is at least twice as large as from any other.
func oneLargeTensor(c *Case) (claim, bool) {
	if c.OOM == nil || c.OOM.Phase == callsite.Load || c.OOM.Phase == callsite.Optimizer || c.OOM.Phase == callsite.Save {
		return claim{}, false
	}
	if c.betterThanLarge() {
		return claim{}, false
	}
	lines := c.linesOfStep()
	var first report.Place
	for at, l := range lines {
		if best := lines[first]; best == nil || l.largest > best.largest || l.largest == best.largest && at.Line < first.Line {
			first = at
		}
	}
	big := lines[first]
	if big == nil || first.File == "" || 8*big.largest < c.OOM.Limit.Bytes || 4*big.sum < c.InUse+c.OOM.Request {
		return claim{}, false
	}
	for at, l := range lines {
		if at != first && 2*l.largest > big.largest {
			return claim{}, false
		}
	}
	if o := c.Origins.Of(big.stack); o.Gather || o.Parallel || c.inLayer(big.stack) || c.many(big) {
		return claim{}, false
	}
	undo := change{never: big.ids, request: big.request}
	f := claim{without: undo, Finding: report.Finding{
		ID: "one-large-tensor", Severity: report.Error, Confidence: 0.85, Bytes: big.sum, Where: []report.Place{first},
		Title: fmt.Sprintf("one line makes tensors of up to %s, far larger than anything else", big.largest),
		Evidence: []string{
			fmt.Sprintf("%s in %s from that line, the request that failed included where it is its own; no other line of this step has a tensor half as large", big.sum, tensors(len(big.ids)+one(big.request))),
			"such sizes come from pairing every element with every other (x[:, None] - x[None]), from one-hot codes over many classes, or from a whole data set at once",
			"halving the batch may save a quarter or a half of it: a size that pairs samples is quadratic in the batch, and a loss that compares samples is not the same over halves",
		},
	}}
	if side := square(big.largest); side > 0 {
		f.Evidence = append(f.Evidence, fmt.Sprintf("%s is exactly %s × %s numbers of 4 bytes", big.largest, units.Count(side), units.Count(side)))
	}
	f.remedy(saving(big.sum*3/4, "compute it in chunks over one dimension, or with an operator that never holds it (torch.cdist, F.cross_entropy with class indices, F.scaled_dot_product_attention)"), change{saves: big.sum * 3 / 4})
	return f, true
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

// many tells that more than three tensors of that line are about as large as the largest: layers of a model, not one large tensor.
func (c *Case) many(l *lineUse) bool {
	n := one(l.request)
	for _, id := range l.ids {
		n += one(2*c.Size(id) >= l.largest)
	}
	return n > 4
}

// betterThanLarge tells that another finding says more about the size: logits, scores of attention, a convolution's workspace; or that the allocator held
// enough for the request, in pieces.
func (c *Case) betterThanLarge() bool {
	for _, r := range []rule{logits, attention, cudnnWorkspace, evalBatch} {
		if f, ok := r(c); ok && f.Severity == report.Error {
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

// linesOfStep sums what the lines of the user's made in this step: of the calls of a model that is the innermost line the user wrote.
func (c *Case) linesOfStep() map[report.Place]*lineUse {
	lines := map[report.Place]*lineUse{}
	at := func(stack snapshot.StackID) *lineUse {
		p, _ := c.place(stack)
		if lines[p] == nil {
			lines[p] = &lineUse{stack: stack}
		}
		return lines[p]
	}
	from := c.stepBegin()
	for id := len(c.Tape.Initial); id < len(c.Died); id++ {
		cat := c.Category[id]
		if int(c.Born[id]) <= from || !c.Alive(id, c.Instant) || cat == tape.Parameters || cat == tape.Gradients || cat == tape.Optimizer || cat == tape.Workspace {
			continue
		}
		l := at(c.Stack[id])
		l.largest, l.sum, l.ids = max(l.largest, c.Size(id)), l.sum+c.Size(id), append(l.ids, id)
	}
	if places := c.failurePlace(); len(places) > 0 && c.OOM.Stack != 0 {
		l := at(c.OOM.Stack)
		l.largest, l.sum, l.request = max(l.largest, c.OOM.Request), l.sum+c.OOM.Request, true
	}
	return lines
}
