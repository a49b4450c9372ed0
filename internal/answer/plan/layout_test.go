package plan

import (
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/plimsoll/plimsoll/internal/answer/predict"
	"github.com/plimsoll/plimsoll/internal/answer/report"
	"github.com/plimsoll/plimsoll/internal/gpu"
	"github.com/plimsoll/plimsoll/internal/model/exported"
	"github.com/plimsoll/plimsoll/internal/setup"
	"github.com/plimsoll/plimsoll/internal/torch"
	"github.com/plimsoll/plimsoll/internal/units"
)

// cards is the job of middle on several cards of a kind that reaches others over the given card's links.
func cards(tb testing.TB, count int, name string) Request {
	tb.Helper()
	r := middle(tb, 0)
	card, err := gpu.Find(name)
	if err != nil {
		tb.Fatal(err)
	}
	r.Machine = predict.Machine{Card: card}
	r.GPUs, r.Effective = count, 16*count
	r.Axes.MicroBatch, r.Axes.Optimizer, r.Axes.Checkpointing = []int{1, 2}, []torch.Optimizer{"adamw-fused"}, []setup.Checkpointing{setup.None}
	return r
}

func TestEveryLayoutKeepsTheEffectiveBatchAndUsesAllCards(t *testing.T) {
	t.Parallel()
	r := cards(t, 8, "h200")
	r.Axes.Sharding = []setup.Sharding{"fsdp2"}
	fit := find(t, r)
	seen := map[[2]int]bool{}
	for _, p := range fit.Plans {
		ranks := p.GPUs
		if p.Tensor > 0 {
			ranks = p.Ranks
			if p.Tensor*p.Stages*p.Ranks != 8 {
				t.Errorf("tensor %d, %d stages, %d ranks are not eight cards", p.Tensor, p.Stages, p.Ranks)
			}
			if p.Accumulate < p.Stages {
				t.Errorf("%d micro-batches for %d stages", p.Accumulate, p.Stages)
			}
			seen[[2]int{p.Tensor, p.Stages}] = true
		}
		if p.MicroBatch*p.Accumulate*ranks != r.Effective {
			t.Errorf("%d × %d on %d ranks is not the effective batch", p.MicroBatch, p.Accumulate, ranks)
		}
	}
	if len(seen) != 9 {
		t.Errorf("layouts %v, want the nine ways to cut eight cards by powers of two", seen)
	}
}

func TestACutModelComesFirstOnlyWhereItIsClearlyFaster(t *testing.T) {
	t.Parallel()
	fit := find(t, cards(t, 4, "rtx-4090"))
	first := fit.Plans[0]
	whole := slices.IndexFunc(fit.Plans, func(p report.Plan) bool { return p.Fits && p.Tensor == 0 })
	if first.Tensor > 0 && whole >= 0 && fit.Plans[whole].StepMS < (1+leaning)*first.StepMS {
		t.Errorf("a cut model comes first with %.0f ms, one in a piece takes %.0f ms", first.StepMS, fit.Plans[whole].StepMS)
	}
}

func TestCuttingTheModelLeavesLessOnEachCard(t *testing.T) {
	t.Parallel()
	s, err := newSearch(cards(t, 8, "h200"))
	if err != nil {
		t.Fatal(err)
	}
	p := point{MicroBatch: 1, Precision: "amp-bf16", Checkpointing: setup.None, Optimizer: "adamw-fused", Attn: "sdpa", Loop: "function"}
	last := units.Bytes(1 << 62)
	for _, tensor := range []int{1, 2, 4, 8} {
		p.Cut, p.GPUs = setup.NewCut(tensor, 1), tensor
		m := s.need(p)
		if m.err != nil || m.safe >= last {
			t.Errorf("tensor parallel %d needs %s, less cut %s (%v)", tensor, m.safe, last, m.err)
		}
		last = m.safe
	}
}

func TestStagesTakeTheTimeOfTheirBubble(t *testing.T) {
	t.Parallel()
	r := cards(t, 2, "h200")
	r.Axes.Stages, r.Axes.Tensor = []int{2}, []int{1}
	for _, p := range find(t, r).Plans {
		turns := float64(p.Accumulate + 1)
		if low := turns * p.PassMS; p.StepMS < low || p.StepMS > 1.3*low+p.OptimizerMS {
			t.Errorf("%d micro-batches in two stages take %.1f ms, %.0f turns of %.1f ms", p.Accumulate, p.StepMS, turns, p.PassMS)
		}
	}
}

func TestActivationsOnTheHostSaveMemoryAndCostTime(t *testing.T) {
	t.Parallel()
	r := middle(t, 0)
	r.Axes.Offload, r.Axes.Optimizer, r.Axes.MicroBatch = []setup.Offload{"", setup.OffloadActivations}, []torch.Optimizer{"adamw"}, []int{4}
	r.Axes.Checkpointing, r.Axes.Conf = []setup.Checkpointing{setup.None, setup.Full}, []string{""}
	s, err := newSearch(r)
	if err != nil {
		t.Fatal(err)
	}
	for _, way := range []setup.Checkpointing{setup.None, setup.Full} {
		here := point{MicroBatch: 4, Precision: "amp-bf16", Checkpointing: way, Optimizer: "adamw", Attn: "sdpa", Loop: "function", GPUs: 1}
		there := here
		there.Offload = setup.OffloadActivations
		slow, err := s.time(there)
		if err != nil {
			t.Fatal(err)
		}
		fast, err := s.time(here)
		if err != nil || fast.total >= slow.total {
			t.Errorf("%s: %.3f s with activations on the host, %.3f s without (%v)", way, slow.total, fast.total, err)
		}
		if a, b := s.need(there), s.need(here); a.peak.Allocated >= b.peak.Allocated {
			t.Errorf("%s: %s with activations on the host, %s without", way, a.peak.Allocated, b.peak.Allocated)
		}
		if s.onHost(there) == 0 {
			t.Errorf("%s: no memory of the host is counted", way)
		}
	}
}

func TestTheTimeOfActivationsOnTheHostIsToldByShallowModels(t *testing.T) {
	t.Parallel()
	s, err := newSearch(middle(t, 0))
	if err != nil {
		t.Fatal(err)
	}
	for _, layers := range []int{0, -1} {
		k := point{MicroBatch: 4, Precision: "amp-bf16", Attn: "sdpa", Offload: setup.OffloadActivations}.Checkpointed(layers)
		told, full := s.streamed(k), s.inFull(k)
		if full.err != nil {
			t.Fatal(full.err)
		}
		if math.Abs(told.step.Seconds/full.step.Seconds-1) > 0.03 || told.facts.Pinned != full.facts.Pinned {
			t.Errorf("checkpointing %s: %.1f ms and %s on the host by shallow models, %.1f ms and %s by the model", k.Checkpointing,
				1000*told.step.Seconds, told.facts.Pinned, 1000*full.step.Seconds, full.facts.Pinned)
		}
	}
}

func TestLayoutsThatContradictTheJobAreRefused(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(*Request)
		want   string
	}{
		"heads": {func(r *Request) { r.Axes.Tensor = []int{3}; r.GPUs, r.Effective = 3, 3 }, "does not divide"},
		"cards": {func(r *Request) { r.Axes.Tensor, r.Axes.Stages = []int{4}, []int{4} }, "cannot be divided"},
		"none":  {func(r *Request) { r.Axes.Stages = []int{0} }, "at least 1"},
		"sharding": {func(r *Request) {
			r.Axes.Tensor, r.Axes.Stages, r.Axes.Sharding = []int{2}, []int{1}, []setup.Sharding{"zero1"}
		}, "fsdp2"},
		"one card": {func(r *Request) { r.Axes.Stages, r.GPUs = []int{2}, 1 }, "cannot be divided"},
	} {
		r := cards(t, 8, "h200")
		c.change(&r)
		if _, err := Find(r); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want %q", name, err, c.want)
		}
	}
}

func TestTheNoteAboutTheLossFollowsItsReduction(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{"sum": "is a sum", "mean": "mean over samples", "two": "if it is a mean"} {
		g := graphOf(t, "losses/"+name)
		s := &search{r: Request{Source: predict.Source{Graph: g}}}
		if got := s.lossWarning(4); len(got) != 1 || !strings.Contains(got[0], want) {
			t.Errorf("%s: %q", name, got)
		}
	}
}

func graphOf(tb testing.TB, name string) *exported.Graph {
	tb.Helper()
	data, err := os.ReadFile(filepath.Join("..", "..", "model", "exported", "testdata", name+".json.gz"))
	if err != nil {
		tb.Fatal(err)
	}
	g, err := exported.Parse(data)
	if err != nil {
		tb.Fatal(err)
	}
	return g
}
