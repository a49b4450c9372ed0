package predict

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/plimsoll/plimsoll/internal/model/exported"
	"github.com/plimsoll/plimsoll/internal/testkit/recordtest"
)

// tracedRows are measured jobs of architectures that are not built in, each with the graph that was read from its modelling code.
func tracedRows(t *testing.T) (rows []row, graphs map[string]*exported.Graph) {
	dir := "testdata/architectures"
	if other := os.Getenv("PLIMSOLL_TRACES"); other != "" {
		dir = other
	}
	graphs = map[string]*exported.Graph{}
	for _, r := range recordtest.Lines[row](t, filepath.Join("testdata", "architectures.jsonl.gz")) {
		if err := r.Check(); err != nil {
			t.Fatalf("%s: %v", r.ID, err)
		}
		data, err := os.ReadFile(filepath.Join(dir, r.ID+".json.gz"))
		if err != nil {
			continue
		}
		g, err := exported.Parse(data)
		if err != nil {
			t.Errorf("%s: %v", r.ID, err)
			continue
		}
		graphs[r.ID] = g
		rows = append(rows, r)
	}
	return rows, graphs
}

func TestArchitectures(t *testing.T) {
	t.Parallel()
	rows, graphs := tracedRows(t)
	var all []float64
	for _, r := range rows {
		j := r.Job
		j.Loop = "function"
		res, err := Run(j, Source{Graph: graphs[r.ID]}, h200(t))
		if err != nil {
			t.Errorf("%s: %v", r.ID, err)
			continue
		}
		e := 100 * (float64(res.Report.Peak.Allocated)/float64(r.Measured.PeakAllocated) - 1)
		all = append(all, math.Abs(e))
		line := fmt.Sprintf("%-36s %+8.3f %%", r.ID, e)
		if res.Report.Params != r.Measured.Params {
			line += fmt.Sprintf("  params %d, measured %d", res.Report.Params, r.Measured.Params)
		}
		if res.Report.AfterLoad != r.Measured.AfterLoad {
			line += fmt.Sprintf("  loaded %d, measured %d", res.Report.AfterLoad, r.Measured.AfterLoad)
		}
		if math.Abs(e) > 0.05 {
			p := res.Report.Phases
			for _, phase := range []string{"forward", "backward", "optimizer"} {
				last := r.Measured.Phases[len(r.Measured.Phases)-1]
				line += fmt.Sprintf(" %s %+.1f", phase, float64(p[phase]-last[phase])/(1<<20))
			}
		}
		if len(res.Report.Unknown) > 0 {
			line += "  unknown: " + strings.Join(res.Report.Unknown, " ")
		}
		t.Log(line)
	}
	slices.Sort(all)
	if n := len(all); n > 0 {
		t.Logf("%d rows: median %.3f, p90 %.3f, worst %.3f", n, all[n/2], all[n*9/10], all[n-1])
	}
}
