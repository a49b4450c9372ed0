// Package measured reads jobs that were measured on a card and compares predicted tapes with them.
//
// It takes the name of a file of measured rows, or a predicted tape and returns rows and the peak of every phase. For tests only: a row
// that does not check fails the test.
package measured

import (
	"fmt"
	"strings"
	"testing"

	"github.com/plimsoll/plimsoll/internal/memory/alloc"
	"github.com/plimsoll/plimsoll/internal/memory/tape"
	"github.com/plimsoll/plimsoll/internal/model/eager"
	"github.com/plimsoll/plimsoll/internal/model/job"
	"github.com/plimsoll/plimsoll/internal/model/tensor"
	"github.com/plimsoll/plimsoll/internal/testkit/recordtest"
	"github.com/plimsoll/plimsoll/internal/torch"
	"github.com/plimsoll/plimsoll/internal/units"
)

// Row is a job with what was measured.
type Row struct {
	job.Job
	Measured struct {
		Params        int                      `json:"params"`
		AfterLoad     units.Bytes              `json:"after_load"`
		Phases        []map[string]units.Bytes `json:"phases"`
		PeakAllocated units.Bytes              `json:"peak_allocated"`
		PeakReserved  units.Bytes              `json:"peak_reserved"`
		ScalerSkipped any                      `json:"scaler_skipped"`
	} `json:"measured"`
}

// Rows reads the rows of a file and checks every job.
func Rows(t testing.TB, file string) []Row {
	t.Helper()
	rows := recordtest.Lines[Row](t, file)
	for i := range rows {
		if err := rows[i].Check(); err != nil {
			t.Fatalf("%s: %v", rows[i].ID, err)
		}
	}
	return rows
}

// DTypes are the dtypes by the words of a job.
var DTypes = map[torch.DType]tensor.DType{"": tensor.Float32, "fp32": tensor.Float32, "bf16": tensor.BFloat16, "fp16": tensor.Float16}

// Peaks plays a tape and gives the peak of every phase .
func Peaks(t *tape.Tape) (map[tape.Moment]units.Bytes, alloc.Stats, error) {
	out := map[tape.Moment]units.Bytes{}
	var label tape.Moment
	res, err := alloc.Run(t, alloc.Policy{}, func(i int, a *alloc.Allocator) {
		if e := t.Events[i]; e.Kind == tape.Mark {
			if label.Phase == eager.PhaseLoad { // measured when all is loaded, weights that were tied away are gone
				out[label] = a.Stats().Allocated
			}
			label = t.Moments[e.Owner]
		}
		out[label] = max(out[label], a.Stats().Allocated)
	})
	return out, res.Stats, err
}

// Percent is how far a prediction is from a measurement.
func Percent(got, want units.Bytes) float64 { return 100 * (float64(got)/float64(want) - 1) }

// String describes the settings of a row in one line.
func (r Row) String() string {
	return fmt.Sprintf("b%d s%d %s/%s %s ckpt=%v attn=%s acc=%d loop=%s freeze=%v %v", r.Batch, r.Seq, r.ParamDType, r.Autocast, r.Optimizer, r.Checkpointing, r.Attn, r.Accumulate, r.Loop, r.Freeze, r.Measured.ScalerSkipped)
}

// PhaseTable shows the predicted and the measured peak of every phase.
func (r Row) PhaseTable(got map[tape.Moment]units.Bytes) string {
	var b strings.Builder
	loaded := got[tape.Moment{Phase: eager.PhaseLoad}]
	fmt.Fprintf(&b, "\n   load %d want %d diff %d\n", loaded, r.Measured.AfterLoad, loaded-r.Measured.AfterLoad)
	for i, phases := range r.Measured.Phases {
		for _, name := range []string{"zero_grad", "forward", "backward", "optimizer"} {
			g, w := got[tape.Moment{Step: i + 1, Phase: name}], phases[name]
			fmt.Fprintf(&b, "   %d %-10s got %12d want %12d diff %11d (%+.3f %%)\n", i+1, name, g, w, g-w, Percent(g, w))
		}
	}
	return b.String()
}
