package predict

import (
	"fmt"
	"testing"

	"github.com/plimsoll/plimsoll/internal/job"
	"github.com/plimsoll/plimsoll/internal/tape"
)

// sameTape compares two tapes event by event, owners by what they say.
func sameTape(a, b *tape.Tape) error {
	if len(a.Events) != len(b.Events) || a.Allocs != b.Allocs {
		for i := range min(len(a.Events), len(b.Events)) {
			if err := sameEvent(a, b, i); err != nil {
				return fmt.Errorf("%d and %d events; %w", len(a.Events), len(b.Events), err)
			}
		}
		return fmt.Errorf("%d events and %d allocations, %d and %d", len(a.Events), a.Allocs, len(b.Events), b.Allocs)
	}
	for i := range a.Events {
		if err := sameEvent(a, b, i); err != nil {
			return err
		}
	}
	return nil
}

func sameEvent(a, b *tape.Tape, i int) error {
	x, y := a.Events[i], b.Events[i]
	if x.Kind == tape.Mark && y.Kind == tape.Mark {
		if p, q := a.Labels[x.Owner], b.Labels[y.Owner]; p != q {
			return fmt.Errorf("event %d: mark %q and %q", i, p, q)
		}
		return nil
	}
	if p, q := a.Owners[x.Owner], b.Owners[y.Owner]; p != q {
		return fmt.Errorf("event %d: owner %+v and %+v", i, p, q)
	}
	x.Owner, y.Owner = 0, 0
	if x != y {
		return fmt.Errorf("event %d: %+v and %+v", i, x, y)
	}
	return nil
}

// variants of a row that a shelf has to get right: itself, and one of several others.
func variants(j job.Job, which int) []job.Job {
	out := []job.Job{j}
	if j.Source != "hf" {
		return out
	}
	k := j
	switch k.Checkpointing, k.Accumulate = true, 1+which%2; which % 5 {
	case 0:
		k.Checkpointing, k.Optimizer = false, "adamw-fused"
	case 1:
		k.Layers, k.Optimizer = 5, "adafactor"
	case 2:
		k.Layers, k.Optimizer = 8, "sgdm"
	case 3:
		k.Layers, k.Optimizer = 1, "adagrad"
	case 4:
		k.Loop, k.Optimizer = "plain", "adamw-8bit"
	}
	return append(out, k)
}

func TestAShelfWritesTheTapeThatARunRecords(t *testing.T) {
	t.Parallel()
	seen, stretched := map[string]bool{}, 0
	for _, row := range measuredRows(t) {
		kind := fmt.Sprint(row.Model, row.Precision(), row.Checkpointing)
		if seen[kind] {
			continue
		}
		seen[kind] = true
		src, err := source(t, row.Job)
		if err != nil {
			t.Fatal(err)
		}
		m := h200(t)
		s := NewShelf(src, m)
		for v, j := range variants(row.Job, len(seen)) {
			p, _, _, err := train(j, src, m, 0)
			if err != nil {
				continue // no code path
			}
			got, r, err := s.tapeOf(j)
			if err != nil {
				t.Errorf("%s, variant %d: %v", j.ID, v, err)
				continue
			}
			if r.zones != nil {
				stretched++
			} else if src.Config != nil && src.Config.Depth() > 0 {
				t.Errorf("%s, variant %d: its layers do not repeat", j.ID, v)
			}
			if err := sameTape(got, p.Tape()); err != nil {
				t.Errorf("%s, variant %d, zones %v: %v", j.ID, v, r.zones, err)
			}
		}
	}
	if stretched < 50 {
		t.Errorf("only %d tapes were written from fewer layers than the model has", stretched)
	}
}
