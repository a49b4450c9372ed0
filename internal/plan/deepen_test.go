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
			machine := predict.Machine{Card: card, Capacity: card.Memory}
			s := &search{r: Request{Job: j, Source: source, Machine: machine}, parts: map[layout]predict.Source{}, passes: map[passKey]timed{}, Notes: NewNotes(source, machine)}
			keys, depth := s.walks(passKey{batch: j.Batch, precision: j.Precision(), attn: j.Attn, checkpointed: j.Checkpointing, layout: whole})
			if len(keys) != 2 {
				t.Fatalf("%s: %d layers are not told by two shallow models", r.ID, depth)
			}
			deep := keys[0]
			deep.depth = depth
			all, few, more := s.walk(deep), s.walk(keys[0]), s.walk(keys[1])
			told := cost.Deepen(few.step, more.step, shallowLayers, depth-shallowLayers)
			if off := math.Abs(told.Seconds/all.step.Seconds - 1); all.err != nil || off > 0.02 {
				t.Errorf("%s: %.1f ms, walked layer by layer %.1f ms (%v)", r.ID, 1e3*told.Seconds, 1e3*all.step.Seconds, all.err)
			}
		}
	}
}
