package arch

import (
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/plimsoll/plimsoll/internal/eager"
	"github.com/plimsoll/plimsoll/internal/opgraph"
	"github.com/plimsoll/plimsoll/internal/tape"
)

// readGraph reads one of the exported graphs that package opgraph keeps.
func readGraph(t testing.TB, name string) *opgraph.Graph {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("..", "opgraph", "testdata", name+".json.gz"))
	if err != nil {
		t.Fatal(err)
	}
	g, err := opgraph.Parse(data)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// trainGraph computes the tape of a graph row.
func trainGraph(g *opgraph.Graph, r row) (*tape.Tape, *Graph, error) {
	b, err := g.Bind(func(opgraph.Symbol) (int64, error) { return int64(r.Batch), nil })
	if err != nil {
		return nil, nil, err
	}
	p := eager.NewProcess(eager.H200())
	m, err := NewGraph(p, b, GraphSpec{DType: dtypes[r.ParamDType], Loss: r.Loss, LossOutput: r.LossOutput, ChannelsLast: r.ChannelsLast})
	if err != nil {
		return nil, nil, err
	}
	o := eager.Options{Optimizer: r.Optimizer, Accumulate: r.Accumulate, Plain: r.Loop == "plain", Freeze: r.Freeze, ChannelsLast: r.ChannelsLast}
	if r.Autocast != "" {
		o.Autocast = dtypes[r.Autocast]
		o.Scaler = r.Autocast == "fp16"
	}
	err = p.Train(m, o)
	return p.Tape(), m, err
}

func TestGraphPeaksAgreeWithMeasuredOnes(t *testing.T) {
	t.Parallel()
	only := os.Getenv("PLIMSOLL_ROWS")
	errors := map[string][]float64{}
	var all []float64
	for _, r := range measuredRows(t) {
		if r.Source != "graph" || (only != "" && !strings.Contains(r.ID, only)) {
			continue
		}
		tp, m, err := trainGraph(readGraph(t, r.Model), r)
		if err != nil {
			t.Errorf("%s: %v", r.ID, err)
			continue
		}
		if u := m.Unknown(); len(u) > 0 {
			t.Errorf("%s: unknown operators %v", r.ID, u)
		}
		got, stats, err := peaks(tp)
		if err != nil {
			t.Errorf("%s: %v", r.ID, err)
			continue
		}
		e := percent(stats.Peak.Allocated, r.Measured.PeakAllocated)
		errors[r.Model] = append(errors[r.Model], e)
		all = append(all, math.Abs(e))
		t.Logf("%-28s %+7.3f %% reserved %+6.2f %% cl=%v %s", r.ID, e, percent(stats.Peak.Reserved, r.Measured.PeakReserved), r.ChannelsLast, describe(r))
		if only != "" {
			t.Log(phaseTable(r, got))
		}
	}
	for _, model := range slices.Sorted(mapKeys(errors)) {
		es := errors[model]
		slices.SortFunc(es, func(a, b float64) int { return int(math.Copysign(1, math.Abs(a)-math.Abs(b))) })
		t.Logf("%-20s rows %2d median %6.3f worst %+7.3f", model, len(es), math.Abs(es[len(es)/2]), es[len(es)-1])
	}
	if len(all) > 0 {
		slices.Sort(all)
		t.Logf("graphs: %d rows, median %.3f %%, p90 %.3f %%, worst %.3f %%", len(all), all[len(all)/2], all[len(all)*9/10], all[len(all)-1])
	}
}
