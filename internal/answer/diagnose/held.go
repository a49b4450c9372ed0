package diagnose

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/plimsoll/plimsoll/internal/answer/report"
	"github.com/plimsoll/plimsoll/internal/evidence/callsite"
	"github.com/plimsoll/plimsoll/internal/evidence/recording"
	"github.com/plimsoll/plimsoll/internal/memory/tape"
	"github.com/plimsoll/plimsoll/internal/units"
	"github.com/plimsoll/plimsoll/snapshot"
)

var heldRules = []rule{datasetOnGPU, outputsHeld, modelCopies, precision}

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
	return c.passes(stack, "torch/serialization.py") || c.passes(stack, "safetensors/torch.py")
}

// datasetOnGPU: tensors made by the user's code before training, and kept through it. Many from one line prove it; few must
// have stayed through whole steps, since the first batch looks the same until it goes.
func datasetOnGPU(c *Case) (report.Finding, bool) {
	var sum units.Bytes
	var count int
	var stacks []snapshot.StackID
	for _, g := range c.Groups {
		if g.Category != tape.Inputs {
			continue
		}
		if n, bytes := c.longLived(g.Stack); n >= 16 || n > 0 && len(c.Steps) >= 3 {
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
		Title: fmt.Sprintf("the dataset lives on the GPU: %s in %s", sum, tensors(count)),
		Evidence: []string{
			"made before training began, and still there in every step",
			"this is why a larger dataset runs out of memory with the same batch size",
		},
		Remedies: []report.Remedy{
			{Action: "keep samples on the CPU; move each batch in the loop: x = x.to(device, non_blocking=True) with pin_memory=True", Saves: sum, CheckedBy: report.ByArithmetic},
		},
	}, true
}

func tensors(n int) string {
	if n == 1 {
		return "one tensor"
	}
	return units.Count(n) + " tensors"
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
		outlives := c.Died[id] == recording.NeverFreed || len(c.Steps) < 2 || int(c.Died[id]) > c.Steps[1]
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
		if p != callsite.Forward && p != callsite.User || !c.Alive(id, c.Instant) || c.BornIn(id) != step-1 || c.Category[id] == tape.Workspace {
			continue
		}
		if c.Died[id] == recording.NeverFreed || c.StepOf(int(c.Died[id])) > step {
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
		Remedies: []report.Remedy{{Action: "del outputs, loss at the end of the loop body, or move the body into a function", Saves: sum, CheckedBy: report.ByArithmetic}},
	}, true
}

// modelCopies: a second set of parameters with the same sizes, from another line.
func modelCopies(c *Case) (report.Finding, bool) {
	models := c.models()
	if len(models) < 2 {
		return report.Finding{}, false
	}
	slices.SortStableFunc(models, func(a, b model) int { return cmp.Compare(b.bytes, a.bytes) })
	first := models[0]
	for _, m := range models[1:] {
		if !slices.Equal(first.sizes, m.sizes) || 20*m.bytes < c.InUse {
			continue
		}
		copied, original := m, first
		if first.copied {
			copied, original = first, m
		}
		f := report.Finding{
			ID: "model-copies", Severity: c.severity(report.Remark), Confidence: 0.7, Bytes: copied.bytes, Where: []report.Place{copied.at, original.at},
			Title:    fmt.Sprintf("two models of the same size are on the card, %s each", copied.bytes),
			Evidence: []string{fmt.Sprintf("two lines made %s tensors with the same sizes (an EMA, teacher or reference model, or a deepcopy)", units.Count(len(copied.sizes)))},
			Remedies: []report.Remedy{
				{Action: "keep the copy on the CPU (an EMA needs it once a step, a snapshot of the best weights never)", Saves: copied.bytes, CheckedBy: report.ByArithmetic},
				{Action: "keep it in 16 bits and without gradients", Saves: copied.bytes / 2, CheckedBy: report.ByArithmetic, Numerics: true},
				{Action: "with LoRA, use the base with adapters switched off as the reference", Saves: copied.bytes, CheckedBy: report.ByArithmetic},
			},
		}
		if copied.copied {
			f.Confidence = 0.88
			f.Title = fmt.Sprintf("a deep copy of the model is on the card: %s", copied.bytes)
		}
		return f, true
	}
	return report.Finding{}, false
}

// model is a set of parameters that one line outside any constructor made.
type model struct {
	at     report.Place
	sizes  []units.Bytes // in order of size
	bytes  units.Bytes
	copied bool
}

// models groups the parameters alive by the line that made them: not the layer's line in a constructor but the call of the constructor.
func (c *Case) models() []model {
	index := map[report.Place]int{}
	var all []model
	for id := range c.Died {
		if c.Category[id] != tape.Parameters || !c.Alive(id, c.Instant) {
			continue
		}
		at, ok := c.maker(c.Stack[id])
		if !ok {
			continue
		}
		i, seen := index[at]
		if !seen {
			i = len(all)
			index[at] = i
			all = append(all, model{at: at})
		}
		all[i].sizes = append(all[i].sizes, c.Size(id))
		all[i].bytes += c.Size(id)
		all[i].copied = all[i].copied || c.Origins.Of(c.Stack[id]).Copy
	}
	for i := range all {
		slices.Sort(all[i].sizes)
	}
	return all
}

// maker is the innermost line of the user's code outside constructors.
func (c *Case) maker(stack snapshot.StackID) (report.Place, bool) {
	for _, id := range c.Origins.Stacks.Stack(stack) {
		f := c.Origins.Stacks.Frames[id]
		if c.Origins.IsUser(id) && f.Function != "__init__" && !strings.HasPrefix(f.Function, "<listcomp") && !strings.HasPrefix(f.Function, "<genexpr") {
			return report.Place{File: f.File, Line: f.Line, Function: f.Function}, true
		}
	}
	return report.Place{}, false
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
