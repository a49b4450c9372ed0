package timeline

import (
	"github.com/plimsoll/plimsoll/internal/evidence/callsite"
	"github.com/plimsoll/plimsoll/internal/memory/tape"
)

// Role is what a piece of memory is for at an instant, finer than its category.
type Role string

// Roles.
const (
	Parameters  Role = "parameters"
	Gradients   Role = "gradients"
	Optimizer   Role = "optimizer"
	Activations Role = "activations"
	Kept        Role = "kept" // activations or inputs of an earlier step than the one at work
	Inputs      Role = "inputs"
	Workspace   Role = "workspace"
	Copied      Role = "copy"
	Checkpoint  Role = "checkpoint"
	Gathered    Role = "gathered"
	Unknown     Role = "unknown"
	Rounding    Role = "rounding" // what blocks are larger than the requests
)

var roleOf = [tape.Categories]Role{
	tape.Other: Unknown, tape.Parameters: Parameters, tape.Gradients: Gradients, tape.Optimizer: Optimizer,
	tape.Activations: Activations, tape.Inputs: Inputs, tape.Workspace: Workspace,
}

// RoleAt tells what an allocation is for at an instant, a tape event.
func (t *Timeline) RoleAt(id, event int) Role {
	o := t.Origins.Of(t.Stack[id])
	role := roleOf[t.Category[id]]
	switch {
	case o.Gather:
		return Gathered
	case o.Copy && role == Parameters:
		return Copied
	case o.Phase == callsite.Save || o.Loaded && role == Parameters:
		return Checkpoint
	case (role == Activations || role == Inputs) && t.Age(id, event) > 1:
		return Kept // the step before may still be held by the variables of a plain loop
	}
	return role
}

// Age is how many steps before an instant an allocation was made: 0 in the step at work; -1 where no step was seen or it is older than the history.
func (t *Timeline) Age(id, event int) int {
	born := t.BornIn(id)
	if born < 0 || len(t.Steps) == 0 {
		return -1
	}
	return t.StepOf(event) - born
}
