package attempt

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/plimsoll/plimsoll/internal/evidence/probenotes"
	"github.com/plimsoll/plimsoll/internal/units"
)

func dying(batch int, oom probenotes.OOM) probenotes.Process {
	return probenotes.Process{
		Loaders:    []probenotes.Loader{{Batch: &batch, Sampler: "RandomSampler"}},
		Optimizers: map[string]probenotes.Optimizer{"AdamW": {Class: "AdamW", ParameterBytes: units.GiB / 4}},
		OOMs:       []probenotes.OOM{oom},
	}
}

func TestTheNextPlanAnswersTheFailure(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		plan   Plan
		p      probenotes.Process
		limits Limits
		want   Plan
	}{
		{
			// 1 GiB is steady; 9 GiB grew with the batch and 6.2 are free for it: half a batch fits.
			"forward of the first step", Plan{Split: 1},
			dying(32, probenotes.OOM{Limit: 8 * units.GiB, Allocated: 7 * units.GiB, Reserved: 7 * units.GiB, Requested: 3 * units.GiB, Phase: "forward"}),
			Limits{}, Plan{Split: 2},
		},
		{
			"no divisor of six between two and three", Plan{Split: 1},
			dying(6, probenotes.OOM{Limit: 4 * units.GiB, Allocated: 4 * units.GiB, Reserved: 4 * units.GiB, Requested: 2 * units.GiB, Phase: "forward"}),
			Limits{}, Plan{Split: 2},
		},
		{
			"held in pieces", Plan{Split: 1},
			dying(32, probenotes.OOM{Limit: 8 * units.GiB, Allocated: 5 * units.GiB, Reserved: 8 * units.GiB, Requested: units.GiB, Phase: "forward"}),
			Limits{}, Plan{Split: 1, Expandable: true},
		},
		{
			"the optimizer's step", Plan{Split: 1},
			dying(32, probenotes.OOM{Limit: 8 * units.GiB, Allocated: 8 * units.GiB, Reserved: 8 * units.GiB, Requested: units.GiB, Phase: "optimizer"}),
			Limits{}, Plan{Split: 1, LoopOptimizer: true},
		},
		{
			"a split was refused", Plan{Split: 1},
			dying(32, probenotes.OOM{Limit: 8 * units.GiB, Allocated: 7 * units.GiB, Reserved: 7 * units.GiB, Requested: 3 * units.GiB, Phase: "forward"}),
			Limits{NoSplit: true}, Plan{Split: 1, Checkpoint: true},
		},
		{
			"one sample is left", Plan{Split: 4},
			dying(4, probenotes.OOM{Limit: 8 * units.GiB, Allocated: 7 * units.GiB, Reserved: 7 * units.GiB, Requested: 3 * units.GiB, Phase: "forward"}),
			Limits{}, Plan{Split: 4, Checkpoint: true},
		},
	} {
		got, why, ok := Next(c.plan, c.p, c.limits)
		if !ok || got != c.want || why == "" {
			t.Errorf("%s: %+v (%s, %v), want %+v", c.name, got, why, ok, c.want)
		}
	}
}

func TestTheNextPlanServesEveryRankThatDied(t *testing.T) {
	t.Parallel()
	oom := probenotes.OOM{Limit: 8 * units.GiB, Allocated: 7 * units.GiB, Reserved: 7 * units.GiB, Requested: 3 * units.GiB, Phase: "forward"}
	worse := oom
	worse.Requested = 30 * units.GiB
	ranks := []probenotes.Process{dying(32, oom), dying(32, worse), dying(32, oom)}
	for i := range ranks {
		ranks[i].Rank = i
	}
	plan, why, who, ok := NextOf(Plan{Split: 1}, ranks, Limits{})
	alone, _, _ := Next(Plan{Split: 1}, ranks[1], Limits{})
	if !ok || why == "" || who.Rank != 1 || plan != alone || plan.Split < 4 {
		t.Errorf("%+v for rank %d (%s), want %+v", plan, who.Rank, why, alone)
	}
	if _, _, _, ok := NextOf(Plan{}, nil, Limits{}); ok {
		t.Error("a plan for nobody")
	}
}

func TestPlansOnlyGrowAndEnd(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		size := rapid.Int64Range(0, int64(64*units.GiB))
		bytes := func(name string) units.Bytes { return units.Bytes(size.Draw(t, name)) }
		p := dying(rapid.IntRange(0, 512).Draw(t, "batch"), probenotes.OOM{
			Limit: bytes("limit"), Allocated: bytes("allocated"), Reserved: bytes("reserved"), Requested: bytes("requested"),
			Phase: rapid.SampledFrom([]string{"forward", "backward", "optimizer", ""}).Draw(t, "phase")})
		if rapid.Bool().Draw(t, "unrecorded") {
			p.OOMs = nil
		}
		limits := Limits{NoSplit: rapid.Bool().Draw(t, "no split"), NoCheckpoint: rapid.Bool().Draw(t, "no checkpoint"), Numerics: rapid.Bool().Draw(t, "numerics")}
		plan := Plan{Split: 1}
		for range 32 {
			next, _, ok := Next(plan, p, limits)
			if !ok {
				return
			}
			if next == plan || next.Split < plan.Split || (plan.Checkpoint && !next.Checkpoint) {
				t.Fatalf("%+v after %+v", next, plan)
			}
			if next.Autocast != "" && !limits.Numerics {
				t.Fatalf("numerics changed unasked: %+v", next)
			}
			plan = next
		}
		t.Fatal("plans do not end")
	})
}

func TestAScriptThatDrawsItsBatchesIsCalledInParts(t *testing.T) {
	t.Parallel()
	p := probenotes.Process{Fit: &probenotes.Fit{ModelBatch: 12}, OOMs: []probenotes.OOM{{Limit: 6 * units.GiB, Allocated: 5 * units.GiB, Requested: 8 * units.GiB}}}
	next, _, ok := Next(Plan{Split: 1}, p, Limits{})
	if !ok || next != (Plan{Split: 1, Chunk: 3}) { // 13 GiB into 5.4
		t.Errorf("%+v %v", next, ok)
	}
	p.OOMs = nil
	for now, want := range map[int]int{0: 2, 2: 4, 4: 12, 6: 12} {
		if next, _, ok := Next(Plan{Split: 1, Chunk: now}, p, Limits{}); !ok || next.Chunk != want {
			t.Errorf("after %d parts %+v %v", now, next, ok)
		}
	}
	if next, _, _ := Next(Plan{Split: 1, Chunk: 12}, p, Limits{}); next.Chunk != 12 || !next.Checkpoint {
		t.Errorf("%+v", next)
	}
	if next, _, _ := Next(Plan{Split: 1}, p, Limits{NoChunk: true}); next.Chunk != 0 {
		t.Errorf("refused, and yet %+v", next)
	}
}
