package plan

import (
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/plimsoll/plimsoll/internal/answer/predict"
	"github.com/plimsoll/plimsoll/internal/answer/report"
	"github.com/plimsoll/plimsoll/internal/gpu"
	"github.com/plimsoll/plimsoll/internal/setup"
	"github.com/plimsoll/plimsoll/internal/testkit/recordtest"
	"github.com/plimsoll/plimsoll/internal/units"
)

// contextOfRows is what the measurements allow a process beside what it reserves.
const contextOfRows = 7 * units.GiB / 10

// The two sets of measured grids: the first was in view when the cost model was made; the second was measured afterwards (scripts/gpu/measure_planning.py), on another day.
const (
	seen    = "testdata/planning.jsonl.gz"
	heldout = "testdata/heldout.jsonl.gz"
)

// grids are the measured rows of some files by model.
func grids(tb testing.TB, files ...string) map[string][]measuredRow {
	tb.Helper()
	out := map[string][]measuredRow{}
	for _, file := range files {
		for _, r := range recordtest.Lines[measuredRow](tb, file) {
			out[r.Model] = append(out[r.Model], r)
		}
	}
	return out
}

// ask restricts a request to the grid of some rows.
func ask(tb testing.TB, rows []measuredRow, limit units.Bytes) Request {
	tb.Helper()
	card, err := gpu.Find("h200")
	if err != nil {
		tb.Fatal(err)
	}
	r := Request{Job: rows[0].Job, Machine: predict.Machine{Card: card, Capacity: limit}, Effective: rows[0].Effective}
	r.Job.SetPrecision("fp32")
	r.Job.Checkpointing = false
	r.Source = sourceOf(tb, &r.Job)
	for _, row := range rows {
		r.Axes.MicroBatch = append(r.Axes.MicroBatch, row.Batch)
		r.Axes.Precision = distinct(append(r.Axes.Precision, row.Precision())...)
		way := setup.None
		if row.Checkpointing {
			way = setup.Full
		}
		r.Axes.Checkpointing = distinct(append(r.Axes.Checkpointing, way)...)
		r.Axes.Optimizer = distinct(append(r.Axes.Optimizer, row.Optimizer)...)
	}
	return r
}

// row finds the measurement of a plan.
func rowOf(rows []measuredRow, p report.Plan) (measuredRow, bool) {
	i := slices.IndexFunc(rows, func(r measuredRow) bool {
		return r.Batch == p.MicroBatch && r.Precision() == p.Precision && r.Checkpointing == (p.Checkpointing == setup.Full)
	})
	if i < 0 {
		return measuredRow{}, false
	}
	return rows[i], true
}

// talk prints results where make planning asks for them.
func talk(format string, args ...any) {
	if os.Getenv("PLIMSOLL_SHOW") != "" {
		fmt.Printf(format+"\n", args...)
	}
}

func TestTheFirstPlanFitsAndIsAsFastAsTheBestMeasuredOne(t *testing.T) {
	t.Parallel()
	near, cases := 0, 0
	for model, rows := range grids(t, seen, heldout) {
		var notes *Notes // of the first limit, for all
		for _, gib := range []units.Bytes{12, 16, 24, 40, 80} {
			limit := gib * units.GiB
			request := ask(t, rows, limit)
			if notes == nil {
				notes = NewNotes(request.Source, request.Machine)
			}
			request.Notes = notes
			fit, err := Find(request)
			if err != nil {
				t.Fatal(err)
			}
			best := math.Inf(1)
			for _, r := range rows {
				if !r.OOM && r.Measured.Reserved+contextOfRows <= limit {
					best = min(best, r.time())
				}
			}
			first := slices.IndexFunc(fit.Plans, func(p report.Plan) bool { return p.Fits })
			if math.IsInf(best, 1) {
				if first >= 0 {
					t.Errorf("%s in %s: nothing fits, but a plan was named", model, limit.Short())
				}
				continue
			}
			cases++
			if first != 0 {
				t.Errorf("%s in %s: no plan", model, limit.Short())
				continue
			}
			p := fit.Plans[0]
			if slices.ContainsFunc(p.Changes, func(c string) bool { return strings.HasPrefix(c, "attention ,") || c == "attention " }) {
				t.Errorf("%s in %s: a change without a name: %q", model, limit.Short(), p.Changes) // a graph has the attention it was captured with
			}
			r, ok := rowOf(rows, p)
			if !ok || r.OOM || r.Measured.Reserved+contextOfRows > limit {
				t.Errorf("%s in %s: the first plan does not fit: %+v", model, limit.Short(), p)
				continue
			}
			regret := r.time()/best - 1
			talk("  %-10s %3d GiB  %3d × %-3d %-8s checkpointing %-5s %-26s predicted %8.1f ms, measured %8.1f ms, regret %4.1f %%", model, gib, p.MicroBatch, p.Accumulate,
				p.Precision, p.Checkpointing, p.Conf+string(p.Offload), p.StepMS, r.time(), 100*regret)
			if regret <= 0.05 {
				near++
			}
			if regret > 0.15 {
				t.Errorf("%s in %s: %d × %d %s %s takes %.0f ms, the best %.0f ms", model, limit.Short(), p.MicroBatch, p.Accumulate, p.Precision, p.Checkpointing, r.time(), best)
			}
		}
	}
	if near*10 < cases*9 {
		t.Errorf("only %d of %d first plans are within 5 %% of the best", near, cases)
	}
}

func TestPredictedTimesKeepTheMeasuredOrder(t *testing.T) {
	t.Parallel()
	for model, rows := range grids(t, seen, heldout) {
		most := 0.05
		if rows[0].Source == "graph" && rows[0].Model != "resnet50" {
			most = 0.07 // small convolutional steps wait for the host, whose own time varied by half between measurements
		}
		fit, err := Find(ask(t, rows, 139*units.GiB))
		if err != nil {
			t.Fatal(err)
		}
		var predicted, measured, errors []float64
		told := map[string]bool{} // by the first plan of a row; others differ in what was not measured
		for _, p := range fit.Plans {
			r, ok := rowOf(rows, p)
			if !ok || r.OOM || told[r.ID+string(r.Precision())] {
				continue
			}
			told[r.ID+string(r.Precision())] = true
			predicted, measured = append(predicted, p.StepMS), append(measured, r.time())
			errors = append(errors, math.Abs(p.StepMS/r.time()-1))
		}
		slices.Sort(errors)
		n := len(errors)
		order := spearman(predicted, measured)
		talk("  %-10s %d rows, Spearman %.3f, error of the time: median %.1f %%, 90 %% within %.1f %%, worst %.1f %%", model, n, order, 100*errors[n/2], 100*errors[n*9/10], 100*errors[n-1])
		if order < 0.98 {
			t.Errorf("%s: Spearman %.3f", model, order)
		}
		if errors[n/2] > most {
			t.Errorf("%s: median error %.1f %%", model, 100*errors[n/2])
		}
	}
}
