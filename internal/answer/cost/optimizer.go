package cost

import (
	"fmt"

	"github.com/plimsoll/plimsoll/internal/torch"
)

// Trained is what an optimizer works on.
type Trained struct {
	Tensors  int     // parameters that are trained
	Elements float64 // of all of them
	Width    float64 // bytes of one
}

// Shares of the bandwidth that foreach kernels reach. Measured: AdamW on llama-1b and vit-large, the same rates for four times the size.
const foreachShare, foreachShare16 = 0.86, 0.69

// Weights of the host's work a parameter tensor. Measured: steps that wait for launches (391, 161 and 146 tensors).
const (
	collectWeight = 3.3 // before the first kernel
	spreadWeight  = 4.7 // over AdamW's eight passes
)

// Optimizer is how much later than the end of backward an optimizer's step ends, in seconds. Nothing waits between them, so the host's work
// hides behind what the card has still to do. Passes and accesses are those of package torch; an optimizer it does not know is refused.
func (r Rates) Optimizer(name torch.Optimizer, t Trained, s Step) (float64, error) {
	u, ok := name.Step()
	if !ok {
		_, err := torch.ParseOptimizer(string(name))
		return 0, fmt.Errorf("the time of its step is not known: %w", err)
	}
	share := foreachShare
	if t.Width < 4 {
		share = foreachShare16
	}
	before := collectWeight * float64(t.Tensors)
	between := spreadWeight / 8 * float64(t.Tensors)
	gaps := 0.0
	if u.PerTensor {
		between = operatorWeight * float64(t.Tensors) // every pass is an operator of its own for every tensor
		gaps = launch * float64(t.Tensors)
	}
	host, gpu := s.Seconds-s.Ahead, s.Seconds
	host += r.Host * before
	kernel := u.Accesses*t.Elements*t.Width/(r.Bandwidth*share)/u.Passes + gaps
	for range int(u.Passes) {
		host += r.Host * between
		gpu = max(gpu, host) + kernel
	}
	return max(host, gpu) - s.Seconds, nil
}

// Accumulate is what adding a further micro-batch's gradients to those already there costs: two read, one written.
func (r Rates) Accumulate(t Trained) float64 {
	return 3*t.Elements*t.Width/r.Bandwidth + float64(t.Tensors)*launch
}
