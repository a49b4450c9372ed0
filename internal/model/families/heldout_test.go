package families

import (
	"math"
	"slices"
	"testing"

	"github.com/plimsoll/plimsoll/internal/model/hfconfig"
	"github.com/plimsoll/plimsoll/internal/testkit/measured"
)

// The rows of testdata/heldout were measured after the text families had been written (scripts/gpu/measure.py): models made on the
// host and moved, one function for the whole step.
func TestPredictedPeaksAgreeWithHeldOutOnes(t *testing.T) {
	t.Parallel()
	var errors []float64
	for _, r := range measured.Rows(t, "../../../testdata/heldout/h200-torch-2.11.jsonl.gz") {
		if _, err := hfconfig.Parse(r.Config); err != nil {
			continue
		}
		tp, err := trainAs(r, true)
		if err != nil {
			t.Errorf("%s: %v", r.ID, err)
			continue
		}
		got, stats, err := measured.Peaks(tp)
		if err != nil {
			t.Errorf("%s: %v", r.ID, err)
			continue
		}
		e := measured.Percent(stats.Peak.Allocated, r.Measured.PeakAllocated)
		errors = append(errors, math.Abs(e))
		t.Logf("%-26s %+7.3f %% reserved %+6.2f %% %s", r.ID, e, measured.Percent(stats.Peak.Reserved, r.Measured.PeakReserved), r)
		if math.Abs(e) > 0.5 {
			t.Errorf("%s: %+.3f %%%s", r.ID, e, r.PhaseTable(got))
		}
		checkPhases(t, r, got)
	}
	slices.Sort(errors)
	if n := len(errors); n < 40 || errors[n/2] > 0.05 {
		t.Errorf("%d rows, median error %.3f %%", n, errors[n/2])
	}
}
