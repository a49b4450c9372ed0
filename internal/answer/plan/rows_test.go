package plan

import (
	"cmp"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/plimsoll/plimsoll/internal/answer/predict"
	"github.com/plimsoll/plimsoll/internal/model/hfconfig"
	"github.com/plimsoll/plimsoll/internal/model/job"
	"github.com/plimsoll/plimsoll/internal/units"
)

// measuredRow is one measured configuration.
type measuredRow struct {
	job.Job
	Effective int  `json:"effective_batch"`
	OOM       bool `json:"oom"`
	Measured  struct {
		Reserved units.Bytes `json:"peak_reserved"`
		Pass     float64     `json:"fwdbwd_ms"`
		Opt      float64     `json:"opt_ms"`
	} `json:"measured"`
}

func (r measuredRow) accumulate() int { return r.Effective / r.Batch }

// time is the measured time of one effective batch.
func (r measuredRow) time() float64 {
	return float64(r.accumulate())*r.Measured.Pass + r.Measured.Opt
}

// sourceOf reads the model of a row.
func sourceOf(tb testing.TB, j *job.Job) predict.Source {
	tb.Helper()
	if j.Source == "graph" {
		if err := j.Check(); err != nil {
			tb.Fatal(err)
		}
		return predict.Source{Graph: graphOf(tb, strings.TrimSuffix(filepath.Base(j.Graph), ".json.gz"))}
	}
	c, err := hfconfig.Parse(j.Config)
	if err != nil {
		tb.Fatal(err)
	}
	if j.Task == "" {
		j.Task = c.Task()
	}
	if err := j.Check(); err != nil {
		tb.Fatal(err)
	}
	return predict.Source{Config: c}
}

// spearman is the correlation of ranks.
func spearman(a, b []float64) float64 {
	ra, rb := ranksOf(a), ranksOf(b)
	n := float64(len(a))
	sum := 0.0
	for i := range ra {
		sum += (ra[i] - rb[i]) * (ra[i] - rb[i])
	}
	return 1 - 6*sum/(n*(n*n-1))
}

func ranksOf(v []float64) []float64 {
	order := make([]int, len(v))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(i, j int) int { return cmp.Compare(v[i], v[j]) })
	out := make([]float64, len(v))
	for rank, i := range order {
		out[i] = float64(rank)
	}
	return out
}
