package eager

import "github.com/plimsoll/plimsoll/internal/model/cudnn"

// Benchmark is torch.backends.cudnn.benchmark = True: the first call of every shape tries all plans, later ones run the fastest
// (https://github.com/pytorch/pytorch/blob/v2.11.0/aten/src/ATen/native/cudnn/Conv_v8.cpp, get_plans_from_find). Nil is False, the default.
type Benchmark struct {
	Settled bool // leaves the trials out: what is needed once they are over
	Most    bool // every trial takes the most it may
	tried   map[convCall]bool
}

type convCall struct {
	conv cudnn.Conv
	pass cudnn.Pass
}

// mode tells how the plan of a call is chosen, and remembers that it was.
func (b *Benchmark) mode(c cudnn.Conv, p cudnn.Pass) cudnn.Mode {
	if b == nil {
		return cudnn.Heuristic
	}
	call := convCall{c, p}
	if b.Settled || b.tried[call] {
		return cudnn.Chosen
	}
	if b.tried == nil {
		b.tried = map[convCall]bool{}
	}
	b.tried[call] = true
	return cudnn.Trial
}

// Plans are those of cuDNN's that convolutions run, where the table of workspaces is not sure which.
type Plans int8

// Plans of convolutions.
const (
	LeastPlans  Plans = iota - 1 // the least that measured neighbours took, where they disagree
	LikelyPlans                  // what most of them took
	MostPlans                    // the most that any of them took, where they disagree
	BoundPlans                   // the most that plans are known to take, whatever neighbours did
)
