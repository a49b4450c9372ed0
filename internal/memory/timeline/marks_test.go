package timeline

import (
	"path/filepath"
	"slices"
	"sort"
	"testing"

	"github.com/plimsoll/plimsoll/internal/evidence/callsite"
	"github.com/plimsoll/plimsoll/internal/evidence/recording"
	"github.com/plimsoll/plimsoll/internal/memory/tape"
	"github.com/plimsoll/plimsoll/internal/testkit/recordtest"
	"github.com/plimsoll/plimsoll/snapshot"
)

// marked are recordings by `plimsoll run` on an H200 with PyTorch 2.11: events carry the probe's marks and PyTorch's annotations.
var marked = []string{"dataset_on_gpu", "exception_holds", "float64", "leak_without_backward", "outputs_kept"}

func program(t *testing.T, name string) *snapshot.Snapshot {
	t.Helper()
	return recordtest.Snapshot(t, filepath.Join("..", "programs", name))
}

func told(s *snapshot.Snapshot) *Timeline {
	return New(recording.New(s, 0), callsite.NewTable(&s.Stacks))
}

func TestMarkedStepsAreTheAnnotatedOnes(t *testing.T) {
	t.Parallel()
	found := 0
	for _, name := range marked {
		tl := told(program(t, name))
		if tl.marks == nil {
			continue
		}
		annotated := tl.annotatedSteps()
		if tl.StepsFrom != "marks" || !slices.Equal(tl.Steps, annotated) {
			t.Errorf("%s: steps from %s end at %v, PyTorch annotated %v", name, tl.StepsFrom, tl.Steps, annotated)
		}
		found += len(annotated)
	}
	if found < 10 {
		t.Errorf("only %d steps in all recordings", found)
	}
}

// The probe records stacks in some steps only where they would cost too much. Made from real recordings by taking stacks away: what has no
// stack then belongs to the phase it was marked with, not to backward.
func TestWithoutStacksMarksTellThePhase(t *testing.T) {
	t.Parallel()
	for _, name := range marked {
		full, bare := told(program(t, name)), program(t, name)
		if full.marks == nil {
			continue
		}
		for i := range bare.Traces[0].Stack[full.Event[full.firstMark]:] {
			bare.Traces[0].Stack[int(full.Event[full.firstMark])+i] = 0
		}
		got := told(bare)
		for i := full.firstMark; i < len(full.Tape.Events); i++ {
			e := full.Tape.Events[i]
			if e.Kind != tape.Alloc || full.Stack[e.ID] != 0 && full.marks[i].step < 0 {
				continue // the engine's thread ran Python: a checkpoint's second forward
			}
			want := full.Phase[e.ID]
			if want == callsite.User || want == callsite.Data || want == callsite.Load || want == callsite.Unknown {
				want = full.marks[i].phase // a mark has no finer word
			}
			if got.Phase[e.ID] != want {
				t.Errorf("%s: event %d is of %s without its stack, %s with it", name, i, got.Phase[e.ID], want)
				break
			}
		}
	}
}

func TestNamesThatAProgramGivesAreNoMarks(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		"12 backward": true, "0 forward": true, "3 optimizer": true, "epoch 2": false, "2 epochs": false, "-1 forward": false, "forward": false, "": false,
	} {
		if _, got := readMark(text); got != want {
			t.Errorf("%q: %v, want %v", text, got, want)
		}
	}
}

func TestGrowthIsNamedByTheFewStepsThatCarryStacks(t *testing.T) {
	t.Parallel()
	full, bare := program(t, "outputs_kept"), program(t, "outputs_kept")
	whole := told(full)
	for i := range bare.Traces[0].Stack {
		if k := sort.SearchInts(whole.Steps, i); k > 3 && k%20 != 0 {
			bare.Traces[0].Stack[i] = 0
		}
	}
	for name, growing := range map[string][]Growth{"with all stacks": whole.Growing(4), "with few": told(bare).Growing(4)} {
		if len(growing) == 0 || growing[0].Stack == 0 {
			t.Fatalf("%s: %+v", name, growing)
		}
		frames := full.Stacks.Stack(growing[0].Stack)
		if line := full.Stacks.Frames[frames[len(frames)-1]].Line; line != 11 {
			t.Errorf("%s: line %d grows", name, line)
		}
	}
}
