package replay

import (
	"strings"
	"testing"

	"github.com/plimsoll/plimsoll/internal/testkit/recordtest"
	"github.com/plimsoll/plimsoll/internal/torch"
	"github.com/plimsoll/plimsoll/internal/units"
)

// TestARecordingTellsWhatOtherSettingsDo replays each recording of a program under the settings of each other recording
// of it and compares the peak of reserved memory and the verdict. The programs make the same requests under every
// setting.
func TestARecordingTellsWhatOtherSettingsDo(t *testing.T) {
	t.Parallel()
	for _, program := range []string{"alloc-mixed-", "alloc-varlen-"} {
		cases := map[string]*Case{}
		for _, name := range recordtest.Names(t, program) {
			cases[name] = opened(t, name)
		}
		for from, source := range cases {
			if source.Fidelity.OOMs > 0 {
				continue // it ends where it failed
			}
			t.Run(from, func(t *testing.T) {
				t.Parallel()
				for to, want := range cases {
					target := Target{}
					if strings.HasSuffix(to, "-capped") {
						target.Capacity = units.Bytes(recordtest.MeasuredOf(t, to).Cap * float64(units.GiB))
					}
					setting, err := ParseSetting(want.ConfText, want.Torch)
					if err != nil {
						t.Fatal(err)
					}
					compare(t, to, source.play(setting, target, source.below()), want)
				}
			})
		}
	}
}

func compare(t *testing.T, to string, got Outcome, want *Case) {
	t.Helper()
	recorded := want.Fidelity.ReservedPeakRecorded
	off := float64(got.Peak.Reserved-recorded) / float64(recorded)
	if off < -0.005 || off > 0.005 {
		t.Errorf("%s: reserved peak %v, recorded %v (%+.2f %%)", to, got.Peak.Reserved, recorded, 100*off)
	}
	if (got.OOM != nil) != (want.Fidelity.OOMs > 0) {
		t.Errorf("%s: fails %v, recorded %v", to, got.OOM != nil, want.Fidelity.OOMs > 0)
	}
	if want.Fidelity.OOMs > 0 && got.Retries != 4 { // num_alloc_retries of alloc-varlen-default-capped
		t.Errorf("%s: emptied the cache %d times, recorded 4", to, got.Retries)
	}
}

func TestTheSmallestCapacityServesAndOneGrainLessDoesNot(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"alloc-mixed-default", "alloc-varlen-default-capped", "oom-batch", "cudagraph"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := opened(t, name)
			for _, s := range Settings(c.Torch, true) {
				smallest := c.Smallest(s, Target{}, 0)
				if smallest == 0 {
					t.Errorf("%q: no capacity found", s.Text)
					continue
				}
				if !c.serves(s, Target{}, smallest) {
					t.Errorf("%q fails at %v", s.Text, smallest)
				}
				if c.serves(s, Target{}, smallest-grain) {
					t.Errorf("%q runs below %v", s.Text, smallest)
				}
			}
		})
	}
}

func TestExpandableSegmentsSaveTheRunThatDied(t *testing.T) {
	t.Parallel()
	c := opened(t, "alloc-varlen-default-capped")
	rows := c.Compare(Question{Settings: c.Sensible(torch.Version{}, true)})
	if rows[0].Setting.Text != "expandable_segments:True" || rows[0].Failure() != nil || rows[0].Limited.Served != 1 {
		t.Errorf("best is %q, fails %v, serves %d failed requests", rows[0].Setting.Text, rows[0].Failure(), rows[0].Limited.Served)
	}
	for _, r := range rows {
		if r.Recorded && r.Failure() == nil {
			t.Error("the recorded setting must fail at its own limit")
		}
	}
}

func TestTheCurveOfASettingReachesItsPeak(t *testing.T) {
	t.Parallel()
	c := opened(t, "alloc-mixed-default")
	edges := make([]int, 101)
	for i := range edges {
		edges[i] = i * c.Recording.Trace.Len() / 100
	}
	for _, s := range c.Sensible(torch.Version{}, false) {
		highest := units.Bytes(0)
		for _, b := range c.Held(s, Target{}, edges) {
			highest = max(highest, b)
		}
		if want := c.play(s, Target{}, c.below()).Peak.Reserved; highest != want {
			t.Errorf("%q: the curve reaches %v, the peak is %v", s.Text, highest, want)
		}
	}
}
