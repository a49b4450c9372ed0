package cost

import "strings"

// Trained is what an optimizer works on.
type Trained struct {
	Tensors  int     // parameters that are trained
	Elements float64 // of all of them
	Width    float64 // bytes of one
}

// rule is an optimizer's step: kernels over all parameters and how often they touch an element.
type rule struct{ passes, accesses float64 }

// rules of the default (foreach) implementations: _multi_tensor_* of torch/optim, 2.11, without weight decay where that is not the optimizer's name.
// AdamW: mul, lerp, mul, addcmul, sqrt, div, add, addcdiv.
var rules = map[string]rule{
	"sgd":        {1, 3},
	"sgdm":       {3, 8},
	"adam":       {7, 18},
	"adamw":      {8, 20},
	"amsgrad":    {8, 21},
	"nadam":      {10, 25},
	"radam":      {12, 30},
	"adamax":     {7, 18},
	"adagrad":    {6, 15},
	"adadelta":   {10, 25},
	"rmsprop":    {5, 14},
	"asgd":       {6, 14},
	"rprop":      {10, 22},
	"adafactor":  {10, 20},
	"adamw-8bit": {1, 4},
}

// Shares of the bandwidth that foreach kernels reach. Measured: AdamW on llama-1b and vit-large, the same rates for four times the size.
const foreachShare, foreachShare16 = 0.86, 0.69

// Weights of the host's work a parameter tensor. Measured: steps that wait for launches (391, 161 and 146 tensors).
const (
	collectWeight = 3.3 // before the first kernel
	spreadWeight  = 4.7 // over AdamW's eight passes
)

// fusedAccesses: parameter, gradient and two moments read, three written (aten/src/ATen/native/cuda/fused_adam_utils.cuh).
const fusedAccesses = 7

// Optimizer is how much later than the end of backward an optimizer's step ends, in seconds. Nothing waits between them, so the host's work
// hides behind what the card has still to do.
func (r Rates) Optimizer(name string, t Trained, s Step) float64 {
	base, form := name, ""
	for _, suffix := range []string{"-fused", "-loop"} {
		if strings.HasSuffix(name, suffix) {
			base, form = strings.TrimSuffix(name, suffix), suffix
		}
	}
	u := rules[base]
	if u.passes == 0 {
		u = rules["adamw"]
	}
	share := foreachShare
	if t.Width < 4 {
		share = foreachShare16
	}
	before := collectWeight * float64(t.Tensors)
	between := spreadWeight / 8 * float64(t.Tensors)
	gaps := 0.0
	switch {
	case form == "-fused":
		u = rule{1, fusedAccesses}
	case form == "-loop", base == "adafactor", base == "adamw-8bit":
		between = operatorWeight * float64(t.Tensors) // every pass is an operator of its own for every tensor
		gaps = launch * float64(t.Tensors)
	}
	host, gpu := s.Seconds-s.Ahead, s.Seconds
	host += r.Host * before
	kernel := u.accesses*t.Elements*t.Width/(r.Bandwidth*share)/u.passes + gaps
	for range int(u.passes) {
		host += r.Host * between
		gpu = max(gpu, host) + kernel
	}
	return max(host, gpu) - s.Seconds
}

// Accumulate is what adding a further micro-batch's gradients to those already there costs: two read, one written.
func (r Rates) Accumulate(t Trained) float64 {
	return 3*t.Elements*t.Width/r.Bandwidth + float64(t.Tensors)*launch
}
