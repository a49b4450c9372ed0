package timeline

import (
	"github.com/plimsoll/plimsoll/internal/evidence/callsite"
	"github.com/plimsoll/plimsoll/internal/evidence/recording"
	"github.com/plimsoll/plimsoll/internal/memory/tape"
	"github.com/plimsoll/plimsoll/internal/units"
	"github.com/plimsoll/plimsoll/snapshot"
)

// categorize says of every allocation what it is for.
func (t *Timeline) categorize() {
	n := len(t.Died)
	t.Category = make([]tape.Category, n)
	t.Phase = make([]callsite.Phase, n)
	t.Certain = t.Origins.Recorded
	t.findPhases()
	if !t.Certain {
		t.categorizeByLife()
		return
	}
	c := categorizer{Timeline: t, boundary: t.backwardEnds(), sticky: map[snapshot.StackID]tape.Category{}}
	for id := range len(t.Tape.Initial) {
		t.Category[id] = c.initial(id)
	}
	for i := range t.Tape.Events {
		if e := &t.Tape.Events[i]; e.Kind == tape.Alloc {
			t.Category[e.ID] = c.allocation(int(e.ID), i)
		}
	}
	c.unfinishedBackward()
	c.unknownParameters()
}

// findPhases says of every allocation what the program was doing.
func (t *Timeline) findPhases() {
	for id := range t.Tape.Initial {
		t.Phase[id] = t.Origins.Of(t.Stack[id]).Phase
	}
	for i := range t.Tape.Events {
		if e := &t.Tape.Events[i]; e.Kind == tape.Alloc {
			t.Phase[e.ID] = t.phaseAt(i)
		}
	}
}

type categorizer struct {
	*Timeline
	boundary   []int // ends of the stretches of backward, in order
	next       int   // first boundary not before the current event
	sawForward bool  // a module was called since the last backward or optimizer step
	sticky     map[snapshot.StackID]tape.Category
	workspaces [2]map[units.Bytes]bool // sizes of cuBLAS workspaces seen, forward and backward thread
}

// backwardEnds finds the events at which a stretch of backward is over: the next allocation in the program's own
// thread.
func (t *Timeline) backwardEnds() []int {
	var ends []int
	in := false
	for i := range t.Tape.Events {
		if t.Tape.Events[i].Kind != tape.Alloc {
			continue
		}
		back := t.phaseAt(i) == callsite.Backward
		if in && !back {
			ends = append(ends, i)
		}
		in = back
	}
	return ends
}

func (c *categorizer) allocation(id, event int) tape.Category {
	stack := c.Stack[id]
	o := c.Origins.Of(stack)
	for c.next < len(c.boundary) && c.boundary[c.next] <= event {
		c.next++
	}
	if o.Workspace || o.Bucket || c.cublas(id) {
		return tape.Workspace
	}
	if o.State {
		return tape.Optimizer
	}
	switch c.Phase[id] {
	case callsite.Optimizer:
		c.sawForward = false
		if c.outlivesStep(id, event) {
			return tape.Optimizer
		}
		return tape.Workspace
	case callsite.Backward:
		c.sawForward = false
		if c.outlivesBackward(id) {
			return tape.Gradients
		}
		return tape.Activations
	case callsite.Forward:
		c.sawForward = true
		return tape.Activations
	case callsite.Load:
		return c.loaded(id, event)
	case callsite.Data:
		return tape.Inputs
	case callsite.User:
		return c.user(stack)
	}
	return tape.Other
}

// cublas knows the workspaces that cuBLAS and cuBLASLt take at the first matrix product of a thread and never
// give back, by their sizes: 8,519,680 bytes, 32 MiB on Hopper, and 1 MiB for cuBLASLt (ATen/cuda/CublasHandlePool.cpp, 2.11).
func (c *categorizer) cublas(id int) bool {
	const hopper, other, lt = 32 * units.MiB, 8519680, units.MiB
	size := c.Size(id)
	if size != hopper && size != other && size != lt || c.Phase[id] != callsite.Forward && c.Phase[id] != callsite.Backward {
		return false
	}
	if c.Died[id] != recording.NeverFreed {
		return false
	}
	thread := 0
	if c.Phase[id] == callsite.Backward {
		thread = 1
	}
	if c.workspaces[thread] == nil {
		c.workspaces[thread] = map[units.Bytes]bool{}
	}
	if c.workspaces[thread][size] {
		return false
	}
	c.workspaces[thread][size] = true
	return true
}

// outlivesStep tells whether memory taken by the optimizer stays after the step: it is state then.
func (c *categorizer) outlivesStep(id, event int) bool {
	if c.Died[id] == recording.NeverFreed {
		return true
	}
	return c.StepOf(int(c.Died[id])) > c.StepOf(event)
}

// outlivesBackward tells whether memory taken in backward is still there when the program's own thread goes on:
// it is a gradient then.
func (c *categorizer) outlivesBackward(id int) bool {
	if c.next >= len(c.boundary) {
		return false // decided by unfinishedBackward
	}
	return c.Died[id] == recording.NeverFreed || int(c.Died[id]) > c.boundary[c.next]
}

// loaded tells parameters from what loading needed for a moment.
func (c *categorizer) loaded(id, event int) tape.Category {
	if c.Died[id] == recording.NeverFreed || c.StepOf(int(c.Died[id])) > c.StepOf(event) || int(c.Died[id])-event > len(c.Tape.Events)/2 {
		return tape.Parameters
	}
	return tape.Other
}

// user categorizes memory asked for directly in the user's code: before the model is called it is input, after it belongs to
// the loss. The first sight of a line decides for all.
func (c *categorizer) user(stack snapshot.StackID) tape.Category {
	if known, ok := c.sticky[stack]; ok {
		return known
	}
	category := tape.Inputs
	if c.sawForward {
		category = tape.Activations
	}
	c.sticky[stack] = category
	return category
}

// initial categorizes what was alive before the history began. Blocks keep the stack they were allocated with where it was recorded.
func (c *categorizer) initial(id int) tape.Category {
	switch o := c.Origins.Of(c.Stack[id]); {
	case c.Stack[id] == 0:
		return tape.Other
	case o.Phase == callsite.Load:
		return tape.Parameters
	case o.Phase == callsite.Optimizer:
		return tape.Optimizer
	case o.Phase == callsite.Forward:
		return tape.Activations
	}
	return tape.Other
}

// unfinishedBackward looks at a history that ends inside backward: what is as large as a parameter that has no
// gradient yet is taken for one.
func (c *categorizer) unfinishedBackward() {
	last := -1
	if n := len(c.boundary); n > 0 {
		last = c.boundary[n-1]
	}
	wanted := map[units.Bytes]int{}
	for id := range c.Category {
		if c.Category[id] == tape.Parameters {
			wanted[c.Size(id)]++
		}
	}
	for i := last + 1; i < len(c.Tape.Events); i++ {
		e := &c.Tape.Events[i]
		if e.Kind != tape.Alloc || c.Phase[e.ID] != callsite.Backward || c.Category[e.ID] != tape.Activations {
			continue
		}
		if c.Died[e.ID] == recording.NeverFreed && wanted[e.Size] > 0 {
			wanted[e.Size]--
			c.Category[e.ID] = tape.Gradients
		}
	}
}

// unknownParameters looks at what was there before the history began and has no stack: what has a gradient of its own
// size is a parameter.
func (c *categorizer) unknownParameters() {
	gradients := map[units.Bytes]bool{}
	for id := range c.Category {
		if c.Category[id] == tape.Gradients {
			gradients[c.Size(id)] = true
		}
	}
	for id := range c.Tape.Initial {
		if c.Category[id] == tape.Other && c.Stack[id] == 0 && gradients[c.Size(id)] {
			c.Category[id] = tape.Parameters
		}
	}
}

// categorizeByLife does what can be done without stacks: what was there before training and stays is taken for
// parameters, what the optimizer's annotated or marked step leaves behind for its state, what lives inside a step for activations.
func (t *Timeline) categorizeByLife() {
	if !t.Stepped() || len(t.Steps) == 0 {
		return
	}
	starts := t.annotated("Optimizer.step#", true)
	if t.StepsFrom == "marks" && len(starts) == 0 {
		starts = t.markedStarts()
	}
	first := -1
	if zero := t.annotated("Optimizer.zero_grad#", true); len(zero) > 0 {
		first = zero[0]
	}
	parameters := map[units.Bytes]bool{}
	for i := range t.Tape.Events {
		e := &t.Tape.Events[i]
		if e.Kind != tape.Alloc {
			continue
		}
		category := t.lifeCategory(int(e.ID), i, first, starts)
		if category == tape.Parameters {
			parameters[e.Size] = true
		}
		if category == tape.Gradients && !parameters[e.Size] {
			category = tape.Activations // outputs of a plain loop also live until the next step
		}
		t.Category[e.ID] = category
	}
}

func (t *Timeline) lifeCategory(id, event, first int, starts []int) tape.Category {
	stays := t.Died[id] == recording.NeverFreed || t.StepOf(int(t.Died[id])) > t.StepOf(event)+1
	step := t.StepOf(event)
	inOptimizer := step < len(starts) && event > starts[step] && step < len(t.Steps)
	switch {
	case event <= first && stays:
		return tape.Parameters
	case inOptimizer && stays:
		return tape.Optimizer
	case inOptimizer:
		return tape.Workspace
	case step < len(starts) && t.Alive(id, starts[step]) && !stays:
		return tape.Gradients
	case step < len(t.Steps):
		return tape.Activations
	}
	return tape.Other
}

// annotated gives the tape events at which scopes of a name begin or end.
func (t *Timeline) annotated(prefix string, start bool) []int {
	if t.Trace.TimeUS == nil {
		return nil
	}
	var out []int
	for _, a := range t.Snapshot.Annotations {
		if a.Start == start && a.Device == t.Device && len(a.Name) >= len(prefix) && a.Name[:len(prefix)] == prefix {
			out = append(out, t.eventAt(a.TimeUS))
		}
	}
	return out
}
