package plan

import (
	"cmp"
	"slices"

	"github.com/plimsoll/plimsoll/internal/answer/cost"
	"github.com/plimsoll/plimsoll/internal/answer/predict"
	"github.com/plimsoll/plimsoll/internal/model/eager"
	"github.com/plimsoll/plimsoll/internal/setup"
)

// alike is how far two layers may differ in what they save to count as the same.
const alike = 0.01

// orderLayers decides which layers a selective plan checkpoints first: those that give most memory for the time of their second run, early ones among
// equals. Layers that are alike stay in the order they run.
func (s *search) orderLayers(kept []float64) error {
	if !slices.Contains(s.r.Axes.Checkpointing, setup.Selective) || len(kept) < 2 || slices.Max(kept) <= (1+alike)*slices.Min(kept) {
		return nil
	}
	j := s.r.Job
	j.Batch, j.Checkpointing, j.Layers = max(j.Batch, 1), true, 0
	rates, err := cost.Of(s.r.Machine.Card, j.TF32)
	if err != nil {
		return err
	}
	clocks := map[int]*cost.Clock{}
	facts, err := predict.Stream(j, s.r.Source, s.r.Machine, func(w eager.Work) {
		if w.Call > 0 {
			if clocks[w.Call] == nil {
				clocks[w.Call] = cost.NewClock(rates)
			}
			clocks[w.Call].See(w)
		}
	})
	if err != nil || len(facts.Kept) != s.layers {
		return err
	}
	spent := make([]float64, s.layers)
	for call, c := range clocks {
		if call <= s.layers {
			spent[call-1] = c.Step().Seconds
		}
	}
	s.setOrder(asFloats(facts.Kept), spent)
	return nil
}

// setOrder sorts the layers and adds up what the first ones of the order give and take.
func (s *search) setOrder(kept, spent []float64) {
	s.order = make([]int, len(kept))
	for i := range s.order {
		s.order[i] = i
	}
	slices.SortStableFunc(s.order, func(a, b int) int {
		x, y := kept[a]*spent[b], kept[b]*spent[a]
		if max(x, y) <= (1+alike)*min(x, y) {
			return 0
		}
		return cmp.Compare(y, x)
	})
	s.kept, s.spent = sums(kept, s.order), sums(spent, s.order)
}

// sums are the shares of the whole that the first ones of an order have.
func sums(values []float64, order []int) []float64 {
	out := make([]float64, len(order)+1)
	for i, at := range order {
		out[i+1] = out[i] + values[at]
	}
	whole := max(out[len(order)], 1e-12)
	for i := range out {
		out[i] /= whole
	}
	return out
}

// keptShare is the part of what all checkpointed layers save that so many of them do.
func (s *search) keptShare(c setup.Cut, layers int) float64 {
	if s.order == nil {
		return float64(layers) / float64(max(1, s.depth(c)))
	}
	return s.kept[layers]
}

// spentShare is the same for the time of their second run.
func (s *search) spentShare(c setup.Cut, layers int) float64 {
	if s.order == nil {
		return float64(layers) / float64(max(1, s.depth(c)))
	}
	return s.spent[layers]
}

// calls are the layers a selective plan checkpoints, where they are not simply the first ones.
func (s *search) calls(layers int) []int {
	if s.order == nil {
		return nil
	}
	out := slices.Clone(s.order[:layers])
	slices.Sort(out)
	if out[layers-1] == layers-1 {
		return nil
	}
	return out
}

func asFloats[T ~int64](values []T) []float64 {
	out := make([]float64, len(values))
	for i, v := range values {
		out[i] = float64(v)
	}
	return out
}
