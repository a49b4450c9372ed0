package diagnose

import (
	"fmt"
	"slices"
	"strings"

	"github.com/plimsoll/plimsoll/internal/answer/report"
	"github.com/plimsoll/plimsoll/internal/evidence/callsite"
	"github.com/plimsoll/plimsoll/internal/evidence/holders"
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
	return c.Origins.Of(stack).Loaded
}

// datasetOnGPU: tensors made by the user's code before training, and kept through it. Many from one line prove it; few must
// have stayed through whole steps, since the first batch looks the same until it goes.
func datasetOnGPU(c *Case) (claim, bool) {
	var sum units.Bytes
	var count int
	var stacks []snapshot.StackID
	first := c.madeBeforeBatches()
	for _, g := range c.Groups {
		if g.Category != tape.Inputs {
			continue
		}
		one := slices.ContainsFunc(c.inside([]snapshot.StackID{g.Stack}), func(id int) bool { return first[id] })
		if n, bytes := c.longLived(g.Stack); n >= 16 || n > 0 && (len(c.Steps) >= 3 || one && c.OOM != nil) {
			sum += bytes
			count += n
			stacks = append(stacks, g.Stack)
		}
	}
	if 5*sum < c.InUse {
		return claim{}, false
	}
	undo := change{never: c.madeBefore(stacks)}
	sure := min(0.9, share(sum, c.InUse))
	if !c.callsModel() {
		sure = 0.6 // a loop that keeps what it makes looks the same until a model is called
	}
	return claim{without: undo, tries: []change{undo}, Finding: report.Finding{
		ID: "dataset-on-gpu", Severity: c.severity(report.Warning), Confidence: sure, Bytes: sum, Where: c.places(stacks...),
		Title: fmt.Sprintf("the whole dataset is on the GPU: %s in %s", sum, tensors(count)),
		Evidence: []string{
			"made before training began, and still there in every step",
			"this is why a larger dataset runs out of memory with the same batch size",
		},
		Remedies: []report.Remedy{
			{Action: "keep samples on the CPU; move each batch in the loop: x = x.to(device, non_blocking=True) with pin_memory=True", Saves: sum, CheckedBy: report.ByArithmetic},
		},
	}}, true
}

func tensors(n int) string {
	if n == 1 {
		return "one tensor"
	}
	return units.Count(n) + " tensors"
}

// madeBefore lists what stacks made before the first step that is alive.
func (c *Case) madeBefore(stacks []snapshot.StackID) []int {
	return slices.DeleteFunc(c.inside(stacks), func(id int) bool { return c.BornIn(id) > 0 })
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

// outputsHeld: in a plain loop the previous step's outputs and loss are still referenced while the next forward runs. That is how Python works and seldom much;
// where the request would have been served without them they are the cause.
func outputsHeld(c *Case) (claim, bool) {
	step := c.StepOf(c.Instant)
	if len(c.Steps) == 0 || step == 0 || c.OOM == nil && len(c.Steps) < 2 {
		return claim{}, false
	}
	again := c.madeAgain(step)
	var sum units.Bytes
	var ids []int
	var stacks []snapshot.StackID
	for id := len(c.Tape.Initial); id < len(c.Died); id++ {
		p := c.Phase[id]
		if p != callsite.Forward && p != callsite.User || !c.Alive(id, c.Instant) || c.BornIn(id) != step-1 || c.Category[id] == tape.Workspace || c.IsEval(c.Stack[id]) {
			continue
		}
		replaced := c.Died[id] != recording.NeverFreed && c.StepOf(int(c.Died[id])) <= step
		if !replaced && (c.OOM == nil || !again[c.Stack[id]]) {
			continue // kept for longer: growth, or state
		}
		sum += c.Size(id)
		ids = append(ids, id)
		stacks = append(stacks, c.Stack[id])
	}
	if 20*sum < c.InUse {
		return claim{}, false
	}
	undo := change{never: ids}
	f := claim{without: undo, Finding: report.Finding{
		ID: "outputs-held", Severity: report.Remark, Confidence: 0.8, Bytes: sum, Where: c.loopPlaces(stacks...),
		Title:    fmt.Sprintf("the previous step's results are still held at the peak: %s", sum),
		Evidence: []string{"loop variables live until they are reassigned, so the outputs and loss of one step overlap with the activations of the next"},
	}}
	if c.OOM != nil && 5*sum >= c.InUse && c.try(undo).enough() {
		f.Severity = report.Error
	}
	remedy := undo
	if c.Holders == nil {
		remedy = change{} // which variables refer to the results is not known: of three that were tried on a card, deleting two by name was enough once
	}
	f.remedy(report.Remedy{Action: "move the loop's body into a function, or del every variable that refers to the step's results at its end: " + c.variables(ids), Saves: sum, CheckedBy: report.ByArithmetic}, remedy)
	return f, true
}

// variables names what refers to some allocations, also what only shares a graph with them: one that is forgotten keeps all of it.
func (c *Case) variables(ids []int) string {
	const few = 6
	of := map[int]bool{}
	for _, id := range ids {
		of[id] = true
	}
	var names []string
	add := func(n holders.Name) {
		name, _, _ := strings.Cut(strings.TrimPrefix(n.Name, "the graph of "), "[")
		if name != "" && len(names) < few && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	for _, h := range c.ByHolder() {
		if role := h.Holder.Role; role != holders.Saved && role != holders.Variable || !slices.ContainsFunc(h.IDs, func(id int) bool { return of[id] }) {
			continue
		}
		add(h.Holder.Name)
		for _, n := range h.Holder.Also {
			add(n)
		}
	}
	if len(names) == 0 {
		return "outputs, loss, parts of it"
	}
	return strings.Join(names, ", ")
}

// madeAgain lists the lines whose tensors of the step before last went before the last step was over, or that have run only once: what they made in the
// last step is held for a moment, not for good.
func (c *Case) madeAgain(step int) map[snapshot.StackID]bool {
	held := map[snapshot.StackID]bool{}
	for id := len(c.Tape.Initial); id < len(c.Died); id++ {
		if c.BornIn(id) < step-1 && c.Alive(id, c.Instant) {
			held[c.Stack[id]] = true
		}
	}
	again := map[snapshot.StackID]bool{}
	for id := len(c.Tape.Initial); id < len(c.Died); id++ {
		if !held[c.Stack[id]] {
			again[c.Stack[id]] = true
		}
	}
	return again
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

// halved is the run in half the precision: everything but the libraries' workspaces takes half.
func (c *Case) halved() change {
	ch := change{scaled: map[int]bool{}, by: 0.5, request: true, coming: 0.5}
	ch.kinds = []tape.Category{tape.Parameters, tape.Gradients, tape.Optimizer, tape.Activations, tape.Inputs}
	for id := range c.Died {
		if slices.Contains(ch.kinds, c.Category[id]) {
			ch.scaled[id] = true
		}
	}
	return ch
}
