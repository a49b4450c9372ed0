package predict

import (
	"math"
	"path/filepath"
	"slices"
	"testing"

	"github.com/plimsoll/plimsoll/internal/model/job"
	"github.com/plimsoll/plimsoll/internal/testkit/recordtest"
	"github.com/plimsoll/plimsoll/internal/units"
)

// heldOutRow is a job measured after the models had been written: scripts/gpu/measure_graphs.py and measure_planning.py.
type heldOutRow struct {
	job.Job
	Measured *struct {
		Params    int64       `json:"params"`
		Allocated units.Bytes `json:"peak_allocated"`
	} `json:"measured"`
}

func TestPredictionsOfJobsMeasuredAfterwards(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		file, graphs   string
		source         string
		median, decile float64 // per cent
	}{
		{"../../../testdata/heldout/graphs.jsonl.gz", "../../../testdata/heldout/graphs", "graph", 0.5, 3.3},
		{"../plan/testdata/heldout.jsonl.gz", "../../model/exported/testdata", "graph", 0.2, 3},
		{"../plan/testdata/heldout.jsonl.gz", "", "hf", 0.001, 0.02},
	} {
		var off []float64
		for _, r := range recordtest.Lines[heldOutRow](t, c.file) {
			if r.Measured == nil || r.Source != c.source {
				continue
			}
			if err := r.Check(); err != nil {
				t.Fatalf("%s: %v", r.ID, err)
			}
			src, err := sourceIn(t, r.Job, c.graphs)
			if err != nil {
				t.Fatalf("%s: %v", r.ID, err)
			}
			result, err := Run(r.Job, src, h200(t))
			if err != nil {
				t.Errorf("%s: %v", r.ID, err)
				continue
			}
			if result.Report.Params != r.Measured.Params {
				t.Errorf("%s: %d parameters, %d measured", r.ID, result.Report.Params, r.Measured.Params)
			}
			off = append(off, 100*math.Abs(float64(result.Report.Peak.Allocated)/float64(r.Measured.Allocated)-1))
		}
		slices.Sort(off)
		n := len(off)
		if n < 20 {
			t.Fatalf("%s: %d rows", c.file, n)
		}
		t.Logf("%s, %s: %d rows, median %.3f %%, 90 %% within %.3f %%, worst %.3f %%", filepath.Base(c.file), c.source, n, off[n/2], off[n*9/10], off[n-1])
		if off[n/2] > c.median || off[n*9/10] > c.decile {
			t.Errorf("%s, %s: median %.3f %%, 90 %% within %.3f %%", c.file, c.source, off[n/2], off[n*9/10])
		}
	}
}
