package families

import (
	"math"
	"testing"

	"github.com/plimsoll/plimsoll/internal/testkit/measured"
)

// planningRows are measurements of other sizes and precisions of three models; no rule was looked for in them.
func planningRows(t *testing.T) []measured.Row { return measured.Rows(t, "testdata/planning.jsonl.gz") }

func TestSizesNobodyLookedAtAreAsExact(t *testing.T) {
	t.Parallel()
	for _, r := range planningRows(t) {
		if r.Model != "llama-1b" {
			continue
		}
		tp, err := train(r)
		if err != nil {
			t.Errorf("%s: %v", r.ID, err)
			continue
		}
		_, stats, err := measured.Peaks(tp)
		if err != nil {
			t.Errorf("%s: %v", r.ID, err)
			continue
		}
		allocated := measured.Percent(stats.Peak.Allocated, r.Measured.PeakAllocated)
		reserved := measured.Percent(stats.Peak.Reserved, r.Measured.PeakReserved)
		if math.Abs(allocated) > 0.01 || math.Abs(reserved) > 0.5 {
			t.Errorf("%s: allocated %+.3f %%, reserved %+.2f %% off: %s", r.ID, allocated, reserved, r)
		}
	}
}
