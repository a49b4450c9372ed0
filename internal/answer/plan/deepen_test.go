package plan

import (
	"errors"
	"math"
	"testing"

	"github.com/plimsoll/plimsoll/internal/answer/predict"
	"github.com/plimsoll/plimsoll/internal/gpu"
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
			s := &search{r: Request{Job: j, Source: source, Machine: predict.Machine{Card: card, Capacity: card.Memory}}, Notes: NewNotes(source, predict.Machine{Card: card})}
			key := pass(j.Setup())
			whole, told := s.inFull(key), s.measure(key)
			if err := errors.Join(whole.err, told.err); err != nil {
				t.Fatal(err)
			}
			off := math.Abs(told.step.Seconds/whole.step.Seconds - 1)
			if off > 0.02 {
				t.Errorf("%s: %.1f ms, walked layer by layer %.1f ms", r.ID, 1e3*told.step.Seconds, 1e3*whole.step.Seconds)
			}
		}
	}
}

// inFull walks the stream of a configuration layer by layer.
func (s *search) inFull(k point) walked {
	walks, depth := s.walks(k)
	walks[0].depth = depth
	return s.follow(walks[0], s.r.Source)
}
