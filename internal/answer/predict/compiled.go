package predict

import (
	"github.com/plimsoll/plimsoll/internal/answer/report"
	"github.com/plimsoll/plimsoll/internal/memory/tape"
	"github.com/plimsoll/plimsoll/internal/units"
)

// Of the bytes that operators hold for themselves at the peak, compiled code was measured to hold between these parts
// (docs/measurements/2026-11-15-h200-compiled.md). Inductor saves the smallest cut between forward and backward and computes the rest again
// (https://github.com/pytorch/pytorch/blob/v2.11.0/torch/_functorch/partitioners.py, min_cut_rematerialization_partition), and what is fused
// makes no tensors in between. It may also hold more: a fused kernel writes several results before any of its inputs is let go.
const (
	compiledLow  = 0.40
	compiledHigh = 1.05
)

// compiled widens a prediction of the operators a script calls to what it may take under torch.compile. Parameters, gradients and the
// optimizer's state stay the same.
func compiled(r *report.Prediction) {
	activations := float64(r.ByCategory[tape.Activations.String()])
	more := units.Bytes(activations * (compiledHigh - 1))
	between := report.Range{
		Low: r.Peak.Allocated - units.Bytes(activations*(1-compiledLow)), High: r.Peak.Allocated + more,
		Why: "torch.compile fuses operators and computes some again in backward; the peak is that of the operators as they are written",
	}
	if other := r.Range; other != nil {
		between.Low, between.High = min(between.Low, other.Low), max(between.High, other.High+more)
		between.Why += "; " + other.Why
	}
	r.Range = &between
	r.Safe += more
}
