package plan

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/plimsoll/plimsoll/internal/answer/report"
	"github.com/plimsoll/plimsoll/internal/units"
)

// TestAPlanWithoutRoomForItsUncertaintyComesAfterSaferOnes draws plans with and without such room: none without it is named before one with it that takes at
// most five percent longer.
func TestAPlanWithoutRoomForItsUncertaintyComesAfterSaferOnes(t *testing.T) {
	t.Parallel()
	s, err := newSearch(small(t, smallLlama, 300*units.MiB))
	if err != nil {
		t.Fatal(err)
	}
	confs := []string{"", "expandable_segments:True"}
	rapid.Check(t, func(t *rapid.T) {
		s.found = nil
		for range rapid.IntRange(1, 8).Draw(t, "plans") {
			var c candidate
			c.MicroBatch, c.Conf = 8, rapid.SampledFrom(confs).Draw(t, "conf")
			c.took.total = rapid.Float64Range(1, 1.2).Draw(t, "seconds")
			c.need.safe = units.Bytes(rapid.IntRange(100, 500).Draw(t, "MiB")) * units.MiB
			if rapid.Bool().Draw(t, "tight") {
				c.need.limited = &report.Limited{Retries: 1}
			}
			s.found = append(s.found, c)
		}
		ordered := s.ordered()
		for i, c := range ordered {
			for _, later := range ordered[i+1:] {
				if c.riskier(later) && later.took.total <= 1.05*c.took.total {
					t.Fatalf("a plan without room of %.3f s comes before a safer one of %.3f s", c.took.total, later.took.total)
				}
			}
		}
	})
}

// TestPlansThatFitHaveRoomForTheirUncertainty looks at what fit says over a range of cards.
func TestPlansThatFitHaveRoomForTheirUncertainty(t *testing.T) {
	t.Parallel()
	seen := map[report.Verdict]int{}
	for mib := units.Bytes(150); mib <= 420; mib += 30 {
		r := small(t, smallLlama, mib*units.MiB)
		r.Axes.MicroBatch = []int{1, 4, 8}
		plans := find(t, r).Plans
		for i, p := range plans {
			seen[p.Verdict]++
			if p.Verdict == report.Fits && p.Headroom < 0 {
				t.Errorf("%d MiB: plan %d fits without %s", mib, i+1, -p.Headroom)
			}
			for _, later := range plans[i+1:] {
				if p.Verdict == report.Tight && later.Verdict == report.Fits && later.StepMS <= 1.05*p.StepMS {
					t.Errorf("%d MiB: plan %d is tight and comes before one that fits in %.2f of its time", mib, i+1, later.StepMS/p.StepMS)
				}
			}
		}
	}
	if seen[report.Fits] == 0 {
		t.Errorf("verdicts %v", seen)
	}
}
