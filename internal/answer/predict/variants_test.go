package predict

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/plimsoll/plimsoll/internal/memory/alloc"
	"github.com/plimsoll/plimsoll/internal/memory/tape"
	"github.com/plimsoll/plimsoll/internal/model/job"
	"github.com/plimsoll/plimsoll/internal/model/shard"
	"github.com/plimsoll/plimsoll/internal/setup"
	"github.com/plimsoll/plimsoll/internal/units"
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
		if p, q := a.Moments[x.Owner], b.Moments[y.Owner]; p != q {
			return fmt.Errorf("event %d: mark %v and %v", i, p, q)
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

// variants of a row that Variants has to get right: itself, and one of several others.
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
		k.Layers, k.Optimizer = 4+which%3, "adafactor"
	case 2:
		k.Layers, k.Optimizer = 8, "sgdm"
	case 3:
		k.Layers, k.Optimizer = 1, "adagrad"
	case 4:
		k.Loop, k.Optimizer = "plain", "adamw-8bit"
	}
	if which%3 == 0 {
		k.ZeroGrad = "before-backward"
	}
	return append(out, k)
}

func TestVariantsWriteTheTapeThatARunRecords(t *testing.T) {
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
		s := NewVariants(src, m)
		for v, j := range variants(row.Job, len(seen)) {
			p, _, _, err := train(j, src, m, 0)
			if err != nil {
				continue // no code path
			}
			got, r, err := s.tapeOf(j, setup.Cut{})
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

func TestVariantsNeedWhatARunPredicts(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for i, row := range measuredRows(t) {
		if seen[row.Model] {
			continue
		}
		seen[row.Model] = true
		src, err := source(t, row.Job)
		if err != nil {
			t.Fatal(err)
		}
		m := h200(t)
		s := NewVariants(src, m)
		for v, j := range variants(row.Job, i) {
			m.Conf = alloc.Conf{Expandable: v == 1}
			want, err := Run(j, src, m)
			if err != nil {
				continue // no code path
			}
			got, err := s.Need(j, m.Conf, Spread{})
			if r := want.Report; err != nil || got.Safe != r.Safe || got.Allocated != r.Peak.Allocated || got.Reserved != r.Peak.Reserved {
				t.Errorf("%s, variant %d: %+v (%v), a run predicts %+v, safe %s", j.ID, v, got, err, r.Peak, r.Safe)
			}
			bound, err := s.AtLeast(j, Spread{})
			if err != nil || bound > got.Safe || bound < got.Allocated/2 {
				t.Errorf("%s, variant %d: at least %s, needed %s (%v)", j.ID, v, bound, got.Safe, err)
			}
			if rest, err := s.AtRest(j, Spread{}); err != nil || rest > bound || rest <= 0 {
				t.Errorf("%s, variant %d: at rest %s, at least %s (%v)", j.ID, v, rest, bound, err)
			}
			if v == i%2 { // one of the variants of each model is spread in every way
				spreads(t, s, j, src, m)
			}
		}
	}
}

// spreads compares what each of several cards needs.
func spreads(t *testing.T, s *Variants, j job.Job, src Source, m Machine) {
	t.Helper()
	for i, kind := range append(slices.Clone(setup.Shardings()), "fsdp2") {
		spread := Spread{Plan: shard.Plan{Kind: kind, Ranks: 2 << i, BucketView: i%2 == 0}}
		if i >= 4 {
			spread.Tensor, spread.Plan.Stages = 2, 2*(i-4)
		}
		part, err := src, error(nil)
		if spread.cut() != (setup.Cut{}) {
			if part, err = Divide(src, spread.Tensor, spread.Plan.Stages); err != nil {
				return
			}
		}
		if j.Layers > 0 && part.Config.Depth() < j.Layers {
			return
		}
		want, err := RunPart(j, part, m, spread)
		if err != nil {
			t.Fatal(err)
		}
		got, err := s.Need(j, m.Conf, spread)
		if r := want.Report.Sharded; err != nil || got.Safe != r.Safe || got.Allocated != r.Allocated {
			t.Errorf("%s, %+v: %+v (%v), a run predicts %+v", j.ID, spread, got, err, r)
		}
		if bound, err := s.AtLeast(j, spread); err != nil || bound > got.Safe {
			t.Errorf("%s, %+v: at least %s, needed %s (%v)", j.ID, spread, bound, got.Safe, err)
		} else if rest, err := s.AtRest(j, spread); err != nil || rest > bound {
			t.Errorf("%s, %+v: at rest %s, at least %s (%v)", j.ID, spread, rest, bound, err)
		}
	}
}

func TestWhatIsAskedForFallsWithEveryCheckpointedLayer(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for i, row := range measuredRows(t) {
		src, err := source(t, row.Job)
		if err != nil {
			t.Fatal(err)
		}
		if seen[row.Model] || src.Config == nil || src.Config.Depth() == 0 {
			continue
		}
		seen[row.Model] = true
		s := NewVariants(src, h200(t))
		for _, batch := range []int{1, row.Batch} {
			j := row.Job
			j.Checkpointing, j.Batch, j.Accumulate = true, batch, 1+i%2
			last := units.Bytes(math.MaxInt64)
			for j.Layers = 1; j.Layers <= src.Config.Depth(); j.Layers++ {
				bound, err := s.AtLeast(j, Spread{})
				if err != nil {
					t.Fatal(err)
				}
				if bound > last {
					t.Errorf("%s, batch %d: %d checkpointed layers need %s, one fewer %s", j.ID, batch, j.Layers, bound, last)
				}
				last = bound
			}
		}
	}
}
