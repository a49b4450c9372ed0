package diagnose

import (
	"fmt"
	"slices"

	"github.com/plimsoll/plimsoll/internal/answer/report"
	"github.com/plimsoll/plimsoll/internal/memory/tape"
	"github.com/plimsoll/plimsoll/internal/units"
	"github.com/plimsoll/plimsoll/snapshot"
)

var deadWeightRules = []rule{unusedGradients, frozenState}

// moments is how many tensors of a parameter's size an optimizer keeps, by the file that makes them
// (https://github.com/pytorch/pytorch/blob/v2.11.0/torch/optim/adam.py, _init_group; sgd.py keeps one where momentum is set).
var moments = map[string]int{
	"torch/optim/adam.py": 2, "torch/optim/adamw.py": 2, "torch/optim/nadam.py": 2, "torch/optim/radam.py": 2, "torch/optim/adamax.py": 2, "torch/optim/sgd.py": 1, "torch/optim/rmsprop.py": 1,
}

// trainedSizes counts, by size, the gradients and the parameters with optimizer state that were alive when the last complete step ended.
type trainedSizes struct {
	gradients, states map[units.Bytes]int
}

// trainedSizes looks at the end of the last step: the optimizer has seen every gradient by then, and state is made only for parameters that had one. ok is false where the optimizer keeps no
// state, or an unknown amount of it.
func (c *Case) trainedSizes() (t trainedSizes, ok bool) {
	if !c.Certain || len(c.Steps) < 2 {
		return t, false
	}
	at := c.Steps[len(c.Steps)-1]
	t = trainedSizes{map[units.Bytes]int{}, map[units.Bytes]int{}}
	each := 0
	for id := range c.Died {
		if !c.Alive(id, at) || c.Size(id) < 4*units.KiB {
			continue
		}
		switch c.Category[id] {
		case tape.Gradients:
			t.gradients[c.Size(id)]++
		case tape.Optimizer:
			n := c.momentsOf(c.Stack[id])
			if n == 0 || each != 0 && n != each {
				return t, false
			}
			each = n
			t.states[c.Size(id)]++
		}
	}
	if each == 0 || len(t.gradients) == 0 {
		return t, false
	}
	for size, n := range t.states {
		if n%each != 0 {
			return t, false // another optimizer than its file says, as AMSGrad
		}
		t.states[size] = n / each
	}
	return t, true
}

func (c *Case) momentsOf(stack snapshot.StackID) int {
	for file, n := range moments {
		if c.passes(stack, file) {
			return n
		}
	}
	return 0
}

// beyond sums, by size, how many more there are in one count than in the other, and tells whether the rest agrees: where no size does, the counts are about different things.
func beyond(more, less map[units.Bytes]int) (sizes map[units.Bytes]int, sum units.Bytes, rest bool) {
	sizes = map[units.Bytes]int{}
	for size, n := range more {
		switch d := n - less[size]; {
		case d > 0:
			sizes[size] = d
			sum += units.Bytes(d) * size
		case d == 0:
			rest = true
		}
	}
	return sizes, sum, rest
}

// unusedGradients: gradients of parameters that no optimizer updates, as of a backbone that was not frozen.
func unusedGradients(c *Case) (claim, bool) {
	t, ok := c.trainedSizes()
	if !ok {
		return claim{}, false
	}
	sizes, sum, rest := beyond(t.gradients, t.states)
	if _, frozen, _ := beyond(t.states, t.gradients); !rest || frozen > 0 || 20*sum < c.InUse {
		return claim{}, false
	}
	ids, _ := c.aliveWhere(func(id int) bool { return c.Category[id] == tape.Gradients && sizes[c.Size(id)] > 0 })
	f := claim{kind: normal, without: change{never: ids}, Finding: report.Finding{
		ID: "unused-gradients", Severity: report.Remark, Confidence: 0.7, Bytes: sum, Where: c.parametersOf(sizes),
		Title:    fmt.Sprintf("gradients that no optimizer uses: %s", sum),
		Evidence: []string{fmt.Sprintf("at the end of step %d there are gradients of %s for which the optimizer keeps no state, as it does for the others", len(c.Steps), sum)},
	}}
	f.remedy(saving(sum, "freeze what is not trained: for p in backbone.parameters(): p.requires_grad_(False)"), change{})
	return f, true
}

// frozenState: optimizer state of parameters that have no gradient any more.
func frozenState(c *Case) (claim, bool) {
	t, ok := c.trainedSizes()
	if !ok {
		return claim{}, false
	}
	sizes, sum, rest := beyond(t.states, t.gradients)
	if _, unused, _ := beyond(t.gradients, t.states); !rest || unused > 0 || 20*sum < c.InUse {
		return claim{}, false
	}
	var ids []int
	ids, sum = c.aliveWhere(func(id int) bool { return c.Category[id] == tape.Optimizer && sizes[c.Size(id)] > 0 })
	f := claim{kind: normal, without: change{never: ids}, Finding: report.Finding{
		ID: "frozen-state", Severity: report.Remark, Confidence: 0.7, Bytes: sum, Where: c.parametersOf(sizes),
		Title:    fmt.Sprintf("optimizer state of parameters without gradients: %s", sum),
		Evidence: []string{fmt.Sprintf("at the end of step %d the optimizer keeps state for parameters that have no gradient: they were trained once and are frozen now", len(c.Steps))},
	}}
	f.remedy(saving(sum, "build the optimizer again from what is trained: [p for p in model.parameters() if p.requires_grad], or drop optimizer.state[p]"), change{})
	return f, true
}

// parametersOf are the lines that made parameters of some sizes.
func (c *Case) parametersOf(sizes map[units.Bytes]int) []report.Place {
	var stacks []snapshot.StackID
	for id := range c.Died {
		if c.Category[id] == tape.Parameters && sizes[c.Size(id)] > 0 && !slices.Contains(stacks, c.Stack[id]) && len(stacks) < 8 {
			stacks = append(stacks, c.Stack[id])
		}
	}
	return c.places(stacks...)
}
