package diagnose

import (
	"fmt"
	"strings"

	"github.com/plimsoll/plimsoll/internal/origin"
	"github.com/plimsoll/plimsoll/internal/recorded"
	"github.com/plimsoll/plimsoll/internal/report"
	"github.com/plimsoll/plimsoll/internal/tape"
	"github.com/plimsoll/plimsoll/internal/units"
	"github.com/plimsoll/plimsoll/snapshot"
)

// innermost tells whether one of the three innermost functions of a stack contains one of the words.
func (c *Case) innermost(stack snapshot.StackID, words ...string) bool {
	frames := c.Origins.Stacks.Stack(stack)
	for _, id := range frames[:min(3, len(frames))] {
		f := c.Origins.Stacks.Frames[id]
		for _, w := range words {
			if strings.Contains(f.Function, w) {
				return true
			}
		}
	}
	return false
}

// passes tells whether a stack passes through a file.
func (c *Case) passes(stack snapshot.StackID, file string) bool {
	for _, id := range c.Origins.Stacks.Stack(stack) {
		if strings.Contains(c.Origins.Stacks.Frames[id].File, file) {
			return true
		}
	}
	return false
}

func (c *Case) fromSerialization(stack snapshot.StackID) bool {
	return c.passes(stack, "torch/serialization.py")
}

// datasetOnGPU: many equal tensors made by one line of the user's code before training, and kept through it.
func datasetOnGPU(c *Case) (report.Finding, bool) {
	var sum units.Bytes
	var count int
	var stacks []snapshot.StackID
	for _, g := range c.Groups {
		if g.Category != tape.Inputs || g.Count < 16 {
			continue
		}
		if n, bytes := c.longLived(g.Stack); n >= 16 {
			sum += bytes
			count += n
			stacks = append(stacks, g.Stack)
		}
	}
	if 5*sum < c.InUse {
		return report.Finding{}, false
	}
	return report.Finding{
		ID: "dataset-on-gpu", Severity: c.severity(report.Warning), Confidence: share(sum, c.InUse), Bytes: sum, Where: c.places(stacks...),
		Title: fmt.Sprintf("the dataset lives on the GPU: %s in %s tensors", sum, units.Count(count)),
		Evidence: []string{
			"one line made them before training began, and they stay through every step",
			"this is why a larger dataset runs out of memory with the same batch size",
		},
		Refuted: "a data set meant to be resident, with room for it",
		Remedies: []report.Remedy{
			{Action: "keep samples on the CPU; move each batch in the loop: x = x.to(device, non_blocking=True) with pin_memory=True", Saves: sum, CheckedBy: report.ByArithmetic},
		},
	}, true
}

// longLived counts what a stack made before the first step and still holds after it, if there were steps.
func (c *Case) longLived(stack snapshot.StackID) (n int, bytes units.Bytes) {
	if len(c.Steps) < 2 && c.OOM == nil {
		return 0, 0
	}
	for id := len(c.Tape.Initial); id < len(c.Died); id++ {
		if c.Stack[id] != stack || c.BornIn(id) > 0 || !c.Alive(id, c.Instant) {
			continue
		}
		outlives := c.Died[id] == recorded.NeverFreed || len(c.Steps) < 2 || int(c.Died[id]) > c.Steps[1]
		if outlives {
			n++
			bytes += c.Size(id)
		}
	}
	return n, bytes
}

// outputsHeld: in a plain loop the previous step's outputs and loss are still referenced while the next forward runs.
func outputsHeld(c *Case) (report.Finding, bool) {
	step := c.StepOf(c.Instant)
	if len(c.Steps) < 2 || step == 0 {
		return report.Finding{}, false
	}
	var sum units.Bytes
	var stacks []snapshot.StackID
	for id := len(c.Tape.Initial); id < len(c.Died); id++ {
		p := c.Phase[id]
		if p != origin.Forward && p != origin.User || !c.Alive(id, c.Instant) || c.BornIn(id) != step-1 || c.Category[id] == tape.Workspace {
			continue
		}
		if c.Died[id] == recorded.NeverFreed || c.StepOf(int(c.Died[id])) > step {
			continue // kept for longer: growth, or state
		}
		sum += c.Size(id)
		stacks = append(stacks, c.Stack[id])
	}
	if 20*sum < c.InUse {
		return report.Finding{}, false
	}
	return report.Finding{
		ID: "outputs-held", Severity: report.Remark, Confidence: 0.8, Bytes: sum, Where: c.places(stacks...),
		Title:    fmt.Sprintf("the previous step's results are still held at the peak: %s", sum),
		Evidence: []string{"variables of a loop live until they are assigned again, so outputs and loss of one step stand beside the activations of the next"},
		Refuted:  "a step inside a function, whose locals die when it returns",
		Remedies: []report.Remedy{{Action: "del outputs, loss at the end of the loop body, or move the body into a function", Saves: sum, CheckedBy: report.ByArithmetic}},
	}, true
}

// modelCopies: a second set of parameters of the same sizes, from another line.
func modelCopies(c *Case) (report.Finding, bool) {
	first, second := units.Bytes(0), units.Bytes(0)
	var where []report.Place
	byPlace := map[report.Place]units.Bytes{}
	var order []report.Place
	for _, g := range c.Groups {
		if g.Category != tape.Parameters {
			continue
		}
		if p, ok := c.place(g.Stack); ok {
			if _, seen := byPlace[p]; !seen {
				order = append(order, p)
			}
			byPlace[p] += g.Bytes
		}
	}
	for _, p := range order {
		switch b := byPlace[p]; {
		case b > first:
			first, second, where = b, first, append([]report.Place{p}, where...)
		case b > second:
			second, where = b, append(where, p)
		}
	}
	if second == 0 || 10*second < 9*first || 10*second < c.InUse {
		return report.Finding{}, false
	}
	return report.Finding{
		ID: "model-copies", Severity: c.severity(report.Remark), Confidence: 0.7, Bytes: second, Where: where,
		Title:    fmt.Sprintf("two models of the same size are on the card, %s each", second),
		Evidence: []string{"two different lines made parameters of equal total size (an EMA, teacher or reference model, or a deepcopy)"},
		Refuted:  "two halves of one model",
		Remedies: []report.Remedy{
			{Action: "keep the copy on the CPU, or in 16 bits and without gradients", Saves: second / 2, CheckedBy: report.ByArithmetic},
			{Action: "with LoRA, use the base with adapters switched off as the reference", Saves: second, CheckedBy: report.ByArithmetic},
		},
	}, true
}

// precision: the gradient backward() starts from has the loss's element size; eight bytes are float64.
func precision(c *Case) (report.Finding, bool) {
	for id := range c.Died {
		if o := c.Origins.Of(c.Stack[id]); !o.Root || c.Size(id) != 8 {
			continue
		}
		half := (c.By[tape.Parameters] + c.By[tape.Gradients] + c.By[tape.Optimizer] + c.By[tape.Activations] + c.By[tape.Inputs]) / 2
		return report.Finding{
			ID: "precision-too-high", Severity: c.severity(report.Warning), Confidence: 0.92, Bytes: half, Where: c.precisionPlaces(),
			Title: "the model runs in float64: twice the memory, and far slower",
			Evidence: []string{
				"backward() starts from a gradient of 8 bytes, so the loss is float64",
				"NumPy arrays are float64 by default, and torch.from_numpy() and .double() keep that",
			},
			Refuted:  "a computation that needs double precision",
			Remedies: []report.Remedy{{Action: "model.float() and x.float() (torch.set_default_dtype(torch.float32))", Saves: half, CheckedBy: report.ByArithmetic, Numerics: true}},
		}, true
	}
	return report.Finding{}, false
}

// precisionPlaces are the lines that made the parameters: where the dtype was chosen.
func (c *Case) precisionPlaces() []report.Place {
	var stacks []snapshot.StackID
	for _, g := range c.Groups {
		if g.Category == tape.Parameters {
			stacks = append(stacks, g.Stack)
		}
	}
	return c.places(stacks...)
}
