package plan

import (
	"slices"
	"testing"

	"github.com/plimsoll/plimsoll/internal/answer/predict"
	"github.com/plimsoll/plimsoll/internal/answer/report"
	"github.com/plimsoll/plimsoll/internal/gpu"
	"github.com/plimsoll/plimsoll/internal/model/job"
	"github.com/plimsoll/plimsoll/internal/setup"
	"github.com/plimsoll/plimsoll/internal/torch"
	"github.com/plimsoll/plimsoll/internal/units"
)

// blocks is a resnet50 whose blocks may be checkpointed: early ones save much more than late ones, for about the same work.
func blocks(tb testing.TB, limit units.Bytes) Request {
	tb.Helper()
	j := job.Job{Source: "graph", Graph: "resnet50", Loss: "cross-entropy", Optimizer: "sgdm", Image: 224, Batch: 64}
	for _, m := range []struct {
		name  string
		count int
	}{{"layer1", 3}, {"layer2", 4}, {"layer3", 6}, {"layer4", 3}} {
		for i := range m.count {
			j.CheckpointModules = append(j.CheckpointModules, m.name+"."+string(rune('0'+i)))
		}
	}
	if err := j.Check(); err != nil {
		tb.Fatal(err)
	}
	card, err := gpu.Find("h200")
	if err != nil {
		tb.Fatal(err)
	}
	r := Request{Job: j, Source: predict.Source{Graph: graphOf(tb, "resnet50")}, Machine: predict.Machine{Card: card, Capacity: limit}, Effective: 64}
	r.Axes = Axes{MicroBatch: []int{64}, Checkpointing: []setup.Checkpointing{setup.Selective}, Optimizer: []torch.Optimizer{"sgdm"}, Conf: []string{""}, Offload: []setup.Offload{""}, Loop: []setup.Loop{"function"}}
	return r
}

func TestTheLayersThatGiveMostForTheirTimeAreCheckpointedFirst(t *testing.T) {
	t.Parallel()
	r := blocks(t, 6*units.GiB)
	s, err := newSearch(r)
	if err != nil {
		t.Fatal(err)
	}
	if len(s.order) != 16 || !slices.IsSorted(s.kept) || !slices.IsSorted(s.spent) {
		t.Fatalf("order %v, shares %v and %v", s.order, s.kept, s.spent)
	}
	for n := range s.order {
		if s.kept[n] < s.spent[n]-1e-9 {
			t.Errorf("%d layers give %.2f of the memory for %.2f of the time", n, s.kept[n], s.spent[n])
		}
	}
	p := selective(t, find(t, r))
	naive := r.Job
	naive.Checkpointing, naive.Layers = true, p.Layers
	first, err := predict.Run(naive, r.Source, r.Machine)
	if err != nil {
		t.Fatal(err)
	}
	if p.Safe > first.Report.Safe {
		t.Errorf("%d chosen layers need %s, the first %d %s", p.Layers, p.Safe, p.Layers, first.Report.Safe)
	}
}

func selective(tb testing.TB, fit *report.Fit) report.Plan {
	tb.Helper()
	i := slices.IndexFunc(fit.Plans, func(p report.Plan) bool { return p.Fits && p.Checkpointing == setup.Selective })
	if i < 0 {
		tb.Fatalf("no selective plan fits: %+v", fit.Plans)
	}
	return fit.Plans[i]
}

func TestLayersThatAreAlikeStayInTheirOrder(t *testing.T) {
	t.Parallel()
	s, err := newSearch(middle(t, 10*units.GiB))
	if err != nil {
		t.Fatal(err)
	}
	if s.order != nil {
		t.Errorf("layers of a decoder are ordered %v", s.order)
	}
}
