package timeline

import (
	"strings"
	"testing"

	"github.com/plimsoll/plimsoll/internal/evidence/callsite"
	"github.com/plimsoll/plimsoll/internal/evidence/recording"
	"github.com/plimsoll/plimsoll/internal/memory/tape"
	"github.com/plimsoll/plimsoll/internal/testkit/recordtest"
	"github.com/plimsoll/plimsoll/internal/units"
)

func open(t testing.TB, name string) *Timeline {
	t.Helper()
	s := recordtest.Snapshot(t, name)
	return New(recording.New(s, 0), callsite.NewTable(&s.Stacks))
}

func TestPeaksEqualPyTorchsCountersToTheByte(t *testing.T) {
	t.Parallel()
	for _, name := range recordtest.Names(t, "") {
		tl, stats := open(t, name), recordtest.MeasuredOf(t, name).Stats
		if !tl.Complete || stats["num_ooms"] > 1 {
			continue // began late, or was written at the first of several failures: the counters cover another span
		}
		if got, want := int64(tl.Peak.Requested), stats["requested_bytes.all.peak"]; got != want {
			t.Errorf("%s: peak requested %d, PyTorch counted %d", name, got, want)
		}
		if got, want := int64(tl.Peak.Reserved), stats["reserved_bytes.all.peak"]; got != want {
			t.Errorf("%s: peak reserved %d, PyTorch counted %d", name, got, want)
		}
		if tl.Contradictions != 0 {
			t.Errorf("%s: %d events contradict the history", name, tl.Contradictions)
		}
	}
}

// The programs behind these recordings are known, and so is what their parameters, gradients and state take.
func TestCategoriesAreThoseOfTheProgram(t *testing.T) {
	t.Parallel()
	const gpt2 = 124_439_808 * 4 // bytes of fp32 parameters, the tied head counted once
	for _, c := range []struct {
		name     string
		category tape.Category
		want     units.Bytes
	}{
		{"gpt2-amp", tape.Parameters, gpt2}, {"gpt2-amp", tape.Optimizer, 2 * gpt2},
		{"gpt2-accumulate", tape.Gradients, gpt2}, {"late-recording", tape.Parameters, gpt2}, {"late-recording", tape.Optimizer, 2 * gpt2},
		{"mlp-adam", tape.Optimizer, 2 * 4_014_090 * 4}, {"float64", tape.Parameters, 4_014_090 * 8},
		{"dataset-on-gpu", tape.Inputs, 308 * 3 * units.MiB}, {"resnet50-sgd", tape.Optimizer, 25_557_032 * 4},
	} {
		tl := open(t, c.name)
		got := tl.ByCategory(tl.Peak.Event)[c.category]
		if diff := max(got-c.want, c.want-got); 200*diff > c.want {
			t.Errorf("%s: %s of %s, the program has %s", c.name, got, c.category, c.want)
		}
	}
}

func TestGrowthIsFoundOnlyInLeakingPrograms(t *testing.T) {
	t.Parallel()
	for _, name := range recordtest.Names(t, "") {
		tl := open(t, name)
		found := tl.Growing(4)
		if leaks := strings.HasPrefix(name, "leak-"); (len(found) > 0) != leaks {
			t.Errorf("%s: growth %v", name, found)
		}
	}
	tl := open(t, "leak-outputs-cpu-list")
	if g := tl.Growing(4)[0]; g.PerStep != units.MiB || g.Steps < 50 {
		t.Errorf("leak-outputs-cpu-list: %s a step over %d steps, the program keeps 1 MiB", g.PerStep, g.Steps)
	}
}

func TestStepsAreFoundWithAndWithoutAnnotations(t *testing.T) {
	t.Parallel()
	tl := open(t, "gpt2-amp")
	if len(tl.Steps) != 3 || tl.StepsFrom != "annotations" {
		t.Errorf("%d steps from %s", len(tl.Steps), tl.StepsFrom)
	}
	s := *tl.Snapshot
	s.Annotations = nil
	bare := New(recording.New(&s, 0), tl.Origins)
	if len(bare.Steps) != 3 && len(bare.Steps) != 2 || bare.StepsFrom != "stacks" {
		t.Errorf("without annotations: %d steps from %s", len(bare.Steps), bare.StepsFrom)
	}
}

func TestInUseAtEveryInstantIsTheSumOfWhatIsAlive(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"mlp-adam", "leak-loss-list", "oom-batch"} {
		tl := open(t, name)
		if got := tl.RequestedAt(tl.Peak.Event); got != tl.Peak.Requested {
			t.Errorf("%s: %s alive at the peak of %s", name, got, tl.Peak.Requested)
		}
		var sum units.Bytes
		for _, g := range tl.ByStack(tl.Peak.Event) {
			sum += g.Bytes
		}
		if sum != tl.Peak.Requested {
			t.Errorf("%s: groups sum to %s of %s", name, sum, tl.Peak.Requested)
		}
	}
}
