package torch

// Phase is a part of a training script, as reports spell it.
type Phase = string

// The phases.
const (
	PhaseLoad      Phase = "load"
	PhaseZeroGrad  Phase = "zero_grad"
	PhaseForward   Phase = "forward"
	PhaseBackward  Phase = "backward"
	PhaseOptimizer Phase = "optimizer"
	PhaseEval      Phase = "eval"
	PhaseOther     Phase = "other"
)
