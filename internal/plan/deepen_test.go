package plan

import (
	"math"
	"testing"

	"github.com/plimsoll/plimsoll/internal/cost"
	"github.com/plimsoll/plimsoll/internal/gpu"
	"github.com/plimsoll/plimsoll/internal/predict"
)

func TestTwoShallowModelsTellTheTimeOfADeepOne(t *testing.T) {
	t.Parallel()
	card, err := gpu.Find("h200")
	if err != nil {
		t.Fatal(err)
	}
	for _, rows := range grids(t, seen, heldout) {
		for _, r := range rows {
			if r.Source != "hf" || r.Batch != rows[0].Batch && r.Batch != 2 && r.Batch != 16 {
				continue
			}
			j := r.Job
			source := sourceOf(t, &j)
			rates, err := cost.Of(card, false)
			if err != nil {
				t.Fatal(err)
			}
			s := &search{r: Request{Job: j, Source: source, Machine: predict.Machine{Card: card, Capacity: card.Memory}}}
			whole, _, err := s.walk(j, source, rates)
			if err != nil {
				t.Fatal(err)
			}
			told, _, err := s.measure(j, layout{}, rates)
			if err != nil {
				t.Fatal(err)
			}
			if off := math.Abs(told.Seconds/whole.Seconds - 1); off > 0.02 {
				t.Errorf("%s: %.1f ms, walked layer by layer %.1f ms", r.ID, 1e3*told.Seconds, 1e3*whole.Seconds)
			}
		}
	}
}
