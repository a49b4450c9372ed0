package predict

import (
	"testing"

	"github.com/plimsoll/plimsoll/internal/model/eager"
	"github.com/plimsoll/plimsoll/internal/units"
)

// A workspace whose measured neighbours disagree by more than a quarter of the peak makes the answer a range; a smaller doubt stays in the bound.
func TestDoubtAboutAWorkspaceIsARange(t *testing.T) {
	for _, c := range []struct {
		doubt, peak units.Bytes
		isRange     bool
	}{
		{360 * units.MiB, 239 * units.MiB, true},
		{360 * units.MiB, 4 * units.GiB, false},
		{0, units.MiB, false},
	} {
		var seen convolutions
		seen.see(eager.Work{Spare: c.doubt, Doubt: c.doubt})
		r := seen.between(c.peak, Machine{})
		if (r != nil) != c.isRange {
			t.Fatalf("doubt %s of %s: %+v", c.doubt, c.peak, r)
		}
		if r != nil && (r.Low != c.peak || r.High != c.peak+c.doubt) {
			t.Errorf("%+v", r)
		}
	}
}
