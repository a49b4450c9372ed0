package predict

import (
	"bufio"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/plimsoll/plimsoll/internal/gpu"
	"github.com/plimsoll/plimsoll/internal/hfconfig"
	"github.com/plimsoll/plimsoll/internal/job"
	"github.com/plimsoll/plimsoll/internal/opgraph"
	"github.com/plimsoll/plimsoll/internal/report"
	"github.com/plimsoll/plimsoll/internal/units"
)

// measured is what one H200 with PyTorch 2.11 showed for a job.
type measured struct {
	Params        int64                    `json:"params"`
	AfterLoad     units.Bytes              `json:"after_load"`
	Phases        []map[string]units.Bytes `json:"phases"`
	PeakAllocated units.Bytes              `json:"peak_allocated"`
	PeakReserved  units.Bytes              `json:"peak_reserved"`
}

// row is a job, what was measured and what is predicted.
type row struct {
	job.Job
	Measured      measured `json:"measured"`
	ScalerSkipped bool     `json:"scaler_skipped"`
	got           report.Prediction
}

func measuredRows(t testing.TB) []row {
	t.Helper()
	f, err := os.Open(filepath.Join("..", "arch", "testdata", "memory.jsonl.gz"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	var rows []row
	lines := bufio.NewScanner(z)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var r row
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			t.Fatal(err)
		}
		if err := r.Check(); err != nil {
			t.Fatalf("%s: %v", r.ID, err)
		}
		rows = append(rows, r)
	}
	return rows
}

func source(t testing.TB, j job.Job) (Source, error) {
	t.Helper()
	if j.Source == "hf" {
		c, err := hfconfig.Parse(j.Config)
		return Source{Config: c}, err
	}
	data, err := os.ReadFile(filepath.Join("..", "opgraph", "testdata", filepath.Base(j.Graph)))
	if err != nil {
		return Source{}, err
	}
	g, err := opgraph.Parse(data)
	return Source{Graph: g}, err
}

func h200(t testing.TB) Machine {
	t.Helper()
	c, err := gpu.Find("h200")
	if err != nil {
		t.Fatal(err)
	}
	return Machine{Card: c}
}

func percent(got, want units.Bytes) float64 { return 100 * (float64(got)/float64(want) - 1) }

// predicted computes every row that can be computed and lists the others.
func predicted(t testing.TB) (rows []row, failed []error) {
	t.Helper()
	only := os.Getenv("PLIMSOLL_ROWS")
	m := h200(t)
	for _, r := range measuredRows(t) {
		if only != "" && !strings.Contains(r.ID, only) {
			continue
		}
		src, err := source(t, r.Job)
		if err == nil {
			var res *Result
			if res, err = Run(r.Job, src, m); err == nil {
				r.got = res.Report
				rows = append(rows, r)
			}
		}
		if err != nil {
			failed = append(failed, fmt.Errorf("%s: %w", r.ID, err))
		}
	}
	return rows, failed
}

// summary is the distribution of some errors in percent.
type summary struct {
	n                  int
	median, p90, worst float64
}

func summarize(errs []float64) summary {
	if len(errs) == 0 {
		return summary{}
	}
	slices.SortFunc(errs, func(a, b float64) int { return int(math.Copysign(1, math.Abs(a)-math.Abs(b))) })
	n := len(errs)
	return summary{n, math.Abs(errs[n/2]), math.Abs(errs[n*9/10]), errs[n-1]}
}

func (s summary) String() string {
	return fmt.Sprintf("%4d  %7.3f  %7.3f  %+8.3f", s.n, s.median, s.p90, s.worst)
}

// TestAccuracy prints the table of make accuracy and holds the predictions to their standard.
func TestAccuracy(t *testing.T) {
	t.Parallel()
	rows, failed := predicted(t)
	for _, err := range failed {
		t.Log(err)
	}
	byModel := map[string][]float64{}
	var hf, graph, reserved, phases []float64
	covered, over, rightPhase := 0, []float64{}, 0
	for _, r := range rows {
		e := percent(r.got.Peak.Allocated, r.Measured.PeakAllocated)
		byModel[r.Model] = append(byModel[r.Model], e)
		if r.Source == "hf" {
			hf = append(hf, e)
		} else {
			graph = append(graph, e)
		}
		re := percent(r.got.Peak.Reserved, r.Measured.PeakReserved)
		reserved = append(reserved, re)
		se := percent(r.got.Safe, r.Measured.PeakReserved)
		over = append(over, se)
		if se >= 0 {
			covered++
		} else {
			t.Logf("safe bound exceeded: %-26s allocated %+.3f %% reserved %+.2f %% safe %+.2f %% (%d of %d bytes) %s %v", r.ID, e, re, se, r.got.Safe, r.Measured.PeakReserved, r.Precision(), r.ChannelsLast)
		}
		if phaseOf(r.Measured) == r.got.Phase {
			rightPhase++
		}
		phases = append(phases, phaseErrors(r)...)
		if r.got.Params != r.Measured.Params || math.Abs(percent(r.got.AfterLoad, r.Measured.AfterLoad)) > 0 {
			t.Logf("load: %-26s params %d of %d, after load %d of %d", r.ID, r.got.Params, r.Measured.Params, r.got.AfterLoad, r.Measured.AfterLoad)
		}
	}
	t.Logf("%-22s rows  median      p90     worst   (error of peak allocated, percent)", "")
	for _, model := range slices.Sorted(keys(byModel)) {
		t.Logf("%-22s %s", model, summarize(byModel[model]))
	}
	t.Logf("%-22s %s", "Hugging Face", summarize(hf))
	t.Logf("%-22s %s", "graphs", summarize(graph))
	t.Logf("%-22s %s", "single phases", summarize(phases))
	t.Logf("%-22s %s", "reserved", summarize(reserved))
	slices.Sort(over)
	t.Logf("safe bound: %d of %d rows below it, median %+.2f %% above reserved; phase of the peak right in %d", covered, len(rows), over[len(over)/2], rightPhase)
	within := 0
	for _, e := range phases {
		if math.Abs(e) <= 2 {
			within++
		}
	}
	t.Logf("phases within 2 %%: %.1f %%", 100*float64(within)/float64(len(phases)))
	if len(failed) > 0 {
		t.Logf("%d rows could not be computed: %v", len(failed), errors.Join(failed[:1]...))
	}
}

func keys(m map[string][]float64) func(func(string) bool) {
	return func(yield func(string) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}

// phaseOf is the phase in which the measured peak was reached first.
func phaseOf(m measured) string {
	for _, s := range m.Phases {
		for _, name := range []string{"forward", "backward", "optimizer"} {
			if s[name] == m.PeakAllocated {
				return name
			}
		}
	}
	return ""
}

func phaseErrors(r row) []float64 {
	var out []float64
	for i, s := range r.Measured.Phases {
		for _, name := range []string{"forward", "backward", "optimizer"} {
			out = append(out, percent(r.got.Steps[i][name], s[name]))
		}
	}
	return out
}
