package arch

import (
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/plimsoll/plimsoll/internal/alloc"
	"github.com/plimsoll/plimsoll/internal/eager"
	"github.com/plimsoll/plimsoll/internal/hfconfig"
	"github.com/plimsoll/plimsoll/internal/job"
	"github.com/plimsoll/plimsoll/internal/recordtest"
	"github.com/plimsoll/plimsoll/internal/tape"
	"github.com/plimsoll/plimsoll/internal/tensor"
	"github.com/plimsoll/plimsoll/internal/units"
)

// row is a job with what was measured.
type row struct {
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

func measuredRows(t *testing.T) []row { return rowsOf(t, "testdata/memory.jsonl.gz") }

func rowsOf(t *testing.T, file string) []row {
	t.Helper()
	rows := recordtest.Lines[row](t, file)
	for i := range rows {
		if err := rows[i].Check(); err != nil {
			t.Fatalf("%s: %v", rows[i].ID, err)
		}
	}
	return rows
}

var dtypes = map[string]tensor.DType{"": tensor.Float32, "fp32": tensor.Float32, "bf16": tensor.BFloat16, "fp16": tensor.Float16}

// train computes the tape of a row: a model made on the card, forward and backward in a function of their own.
func train(r row) (*tape.Tape, error) { return trainAs(r, false) }

// trainAs computes the tape of a row; moved tells that the model was made on the host and that one function does the whole step.
func trainAs(r row, moved bool) (*tape.Tape, error) {
	c, err := hfconfig.Parse(r.Config)
	if err != nil {
		return nil, err
	}
	p := eager.NewProcess(eager.H200())
	m, err := New(p, c, Spec{
		Task: r.Task, Batch: r.Batch, Seq: r.Seq, TargetSeq: r.TargetSeq, Image: r.Image, Frames: r.Frames,
		DType: dtypes[r.ParamDType], Checkpointing: r.Checkpointing, Attn: r.Attn,
	})
	if err != nil {
		return nil, err
	}
	o := eager.Options{Optimizer: r.Optimizer, Accumulate: r.Accumulate, Plain: r.Loop == "plain", WholeStep: moved, Freeze: r.Freeze}
	if moved {
		m.Root().CreateOnHost()
	}
	if r.Autocast != "" {
		o.Autocast = dtypes[r.Autocast]
		o.Scaler = r.Autocast == "fp16"
	}
	err = p.Train(m, o)
	return p.Tape(), err
}

// peaks plays a tape and gives the peak of every phase by its label.
func peaks(t *tape.Tape) (map[string]units.Bytes, alloc.Stats, error) {
	out := map[string]units.Bytes{}
	label := ""
	res, err := alloc.Run(t, alloc.Policy{}, func(i int, a *alloc.Allocator) {
		if e := t.Events[i]; e.Kind == tape.Mark {
			if label == eager.PhaseLoad { // measured when all is loaded, weights that were tied away are gone
				out[label] = a.Stats().Allocated
			}
			label = t.Labels[e.Owner]
		}
		out[label] = max(out[label], a.Stats().Allocated)
	})
	return out, res.Stats, err
}

func percent(got, want units.Bytes) float64 { return 100 * (float64(got)/float64(want) - 1) }

func TestPredictedPeaksAgreeWithMeasuredOnes(t *testing.T) {
	t.Parallel()
	only := os.Getenv("PLIMSOLL_ROWS")
	errors := map[string][]float64{}
	for _, r := range measuredRows(t) {
		if r.Source != "hf" || (only != "" && !strings.Contains(r.ID, only)) {
			continue
		}
		if c, err := hfconfig.Parse(r.Config); err != nil || families[c.Type] == nil {
			continue
		}
		tp, err := train(r)
		if err != nil {
			t.Errorf("%s: %v", r.ID, err)
			continue
		}
		got, stats, err := peaks(tp)
		if err != nil {
			t.Errorf("%s: %v", r.ID, err)
			continue
		}
		e := percent(stats.Peak.Allocated, r.Measured.PeakAllocated)
		errors[r.Model] = append(errors[r.Model], e)
		t.Logf("%-26s %+7.3f %% reserved %+6.2f %% %s", r.ID, e, percent(stats.Peak.Reserved, r.Measured.PeakReserved), describe(r))
		if only != "" || math.Abs(e) > 0.1 {
			t.Log(phaseTable(r, got))
		}
		checkPhases(t, r, got)
	}
	for _, model := range slices.Sorted(mapKeys(errors)) {
		es := errors[model]
		slices.SortFunc(es, func(a, b float64) int { return int(math.Copysign(1, math.Abs(a)-math.Abs(b))) })
		median, worst := math.Abs(es[len(es)/2]), es[len(es)-1]
		t.Logf("%-20s rows %2d median %6.3f worst %+7.3f", model, len(es), median, worst)
		limit := 0.1
		if strings.HasPrefix(model, "segformer") { // cuDNN's workspaces for depthwise convolutions on small images are not known
			limit = 0.2
		}
		if median > limit || math.Abs(worst) > 0.5 {
			t.Errorf("%s: median error %.3f %%, worst %+.3f %%; wanted at most %.1f and 0.5", model, median, worst, limit)
		}
	}
}

// checkPhases holds every phase of every step to two percent of the measurement, and the loaded model to the byte. With fp16 a phase may
// be lower than computed: the scaler skips steps while gradients overflow, and optimizer state appears later.
func checkPhases(t *testing.T, r row, got map[string]units.Bytes) {
	t.Helper()
	// Adagrad's state is made with the optimizer, after the measurement of the loaded model.
	if got[eager.PhaseLoad] != r.Measured.AfterLoad && r.Optimizer != "adagrad" {
		t.Errorf("%s: %d bytes after loading, measured %d", r.ID, got[eager.PhaseLoad], r.Measured.AfterLoad)
	}
	for i, phases := range r.Measured.Phases {
		for name, want := range phases {
			g := got[eager.PhaseLabel(i+1, name)]
			if e := percent(g, want); math.Abs(e) > 2 && (e < 0 || r.Autocast != "fp16") {
				t.Errorf("%s, step %d %s: %d bytes, measured %d (%+.2f %%)", r.ID, i+1, name, g, want, e)
			}
		}
	}
}

func mapKeys(m map[string][]float64) func(func(string) bool) {
	return func(yield func(string) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}

func describe(r row) string {
	return fmt.Sprintf("b%d s%d %s/%s %s ckpt=%v attn=%s acc=%d loop=%s freeze=%v %v", r.Batch, r.Seq, r.ParamDType, r.Autocast, r.Optimizer, r.Checkpointing, r.Attn, r.Accumulate, r.Loop, r.Freeze, r.Measured.ScalerSkipped)
}

func phaseTable(r row, got map[string]units.Bytes) string {
	var b strings.Builder
	fmt.Fprintf(&b, "\n   load %d want %d diff %d\n", got[eager.PhaseLoad], r.Measured.AfterLoad, got[eager.PhaseLoad]-r.Measured.AfterLoad)
	for i, phases := range r.Measured.Phases {
		for _, name := range []string{"zero_grad", "forward", "backward", "optimizer"} {
			g, w := got[eager.PhaseLabel(i+1, name)], phases[name]
			fmt.Fprintf(&b, "   %d %-10s got %12d want %12d diff %11d (%+.3f %%)\n", i+1, name, g, w, g-w, percent(g, w))
		}
	}
	return b.String()
}
