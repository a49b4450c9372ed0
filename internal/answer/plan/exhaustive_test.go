package plan

import (
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/plimsoll/plimsoll/internal/answer/predict"
	"github.com/plimsoll/plimsoll/internal/answer/report"
	"github.com/plimsoll/plimsoll/internal/gpu"
	"github.com/plimsoll/plimsoll/internal/memory/alloc"
	"github.com/plimsoll/plimsoll/internal/model/hfconfig"
	"github.com/plimsoll/plimsoll/internal/model/job"
	"github.com/plimsoll/plimsoll/internal/model/shard"
	"github.com/plimsoll/plimsoll/internal/setup"
	"github.com/plimsoll/plimsoll/internal/torch"
	"github.com/plimsoll/plimsoll/internal/units"
)

// byRuns answers by running every job in full, and bounds nothing.
type byRuns struct {
	src   predict.Source
	m     predict.Machine
	known *sync.Map // string to predict.Need: the search asks from several goroutines
}

func (b byRuns) AtLeast(job.Job, predict.Spread) (units.Bytes, error) { return 0, nil }
func (b byRuns) AtRest(job.Job, predict.Spread) (units.Bytes, error)  { return 0, nil }

func (b byRuns) Within(j job.Job, conf alloc.Conf, room units.Bytes) (report.Limited, error) {
	m := b.m
	m.Conf = conf
	m.Capacity = room + predict.Capacity(b.m) - predict.Room(b.m)
	res, err := predict.Run(j, b.src, m)
	if err != nil {
		return report.Limited{}, err
	}
	return *res.Report.Limited, nil
}

func (b byRuns) Need(j job.Job, conf alloc.Conf, spread predict.Spread) (predict.Need, error) {
	key := fmt.Sprintf("%+v %+v %+v", j, conf, spread)
	if n, ok := b.known.Load(key); ok {
		return n.(predict.Need), nil
	}
	m := b.m
	m.Conf = conf
	n, err := b.run(j, m, spread)
	if err == nil {
		b.known.Store(key, n)
	}
	return n, err
}

func (b byRuns) run(j job.Job, m predict.Machine, spread predict.Spread) (predict.Need, error) {
	if spread.Plan.Ranks < 2 && spread.Plan.Stages < 2 && spread.Tensor < 2 {
		res, err := predict.Run(j, b.src, m)
		if err != nil {
			return predict.Need{}, err
		}
		r := res.Report
		return predict.Need{Allocated: r.Peak.Allocated, Reserved: r.Peak.Reserved, Safe: r.Safe}, nil
	}
	src := b.src
	if spread.Plan.Stages > 1 || spread.Tensor > 1 {
		var err error
		if src, err = predict.Divide(src, spread.Tensor, spread.Plan.Stages); err != nil {
			return predict.Need{}, err
		}
	}
	res, err := predict.RunPart(j, src, m, spread)
	if err != nil {
		return predict.Need{}, err
	}
	r := res.Report.Sharded
	return predict.Need{Allocated: r.Allocated, Reserved: r.Reserved, Safe: r.Safe}, nil
}

// everything computes every plan of a request with nothing but full runs.
func everything(tb testing.TB, r Request, known *sync.Map) *report.Fit {
	tb.Helper()
	r.Plans = 1 << 30
	s, err := newSearch(r)
	if err != nil {
		tb.Fatal(err)
	}
	s.needs = byRuns{r.Source, r.Machine, known}
	if err := s.run(); err != nil {
		tb.Fatal(err)
	}
	for _, c := range s.found {
		for fewer := range c.Layers {
			if m := s.need(c.Checkpointed(fewer)); c.Checkpointing == setup.Selective && m.safe <= s.room {
				tb.Errorf("%+v: %d of %d checkpointed layers would do", c.point, fewer, c.Layers)
			}
		}
	}
	fit, err := s.answer()
	if err != nil {
		tb.Fatal(err)
	}
	return fit
}

// fitting are the plans that fit, without the words about them.
func fitting(fit *report.Fit) []report.Plan {
	var out []report.Plan
	for _, p := range fit.Plans {
		if p.Fits {
			p.Why, p.Changes, p.Limited = "", nil, nil
			out = append(out, p)
		}
	}
	return out
}

// small is a request about a small model on a card with so much memory beside the context.
func small(tb testing.TB, config string, room units.Bytes) Request {
	tb.Helper()
	c, err := hfconfig.Parse([]byte(config))
	if err != nil {
		tb.Fatal(err)
	}
	card, err := gpu.Find("a100-40g")
	if err != nil {
		tb.Fatal(err)
	}
	r := Request{Source: predict.Source{Config: c}, Machine: predict.Machine{Card: card}, Effective: 8, Plans: 3}
	r.Machine.Capacity = room + predict.Capacity(r.Machine) - predict.Room(r.Machine)
	r.Job = job.Job{Source: "hf", Config: []byte("{}"), Task: c.Task(), Batch: 8, Seq: 128}
	if err := r.Job.Check(); err != nil {
		tb.Fatal(err)
	}
	return r
}

const (
	smallLlama = `{"model_type":"llama","hidden_size":256,"intermediate_size":1024,"num_hidden_layers":8,"num_attention_heads":4,"num_key_value_heads":4,"vocab_size":4000}`
	smallBERT  = `{"model_type":"bert","hidden_size":256,"intermediate_size":1024,"num_hidden_layers":8,"num_attention_heads":4,"vocab_size":4000}`
	smallT5    = `{"model_type":"t5","d_model":128,"d_ff":512,"d_kv":32,"num_layers":3,"num_decoder_layers":3,"num_heads":4,"vocab_size":4000}`
)

func TestTheSearchFindsWhatTryingEverythingFinds(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]struct {
		config string
		set    func(*Request)
	}{
		"one card": {smallLlama, func(r *Request) { r.Axes.MicroBatch = []int{1, 4, 8} }},
		"numerics": {smallLlama, func(r *Request) {
			r.Numerics, r.Axes.MicroBatch, r.Axes.Offload = true, []int{1, 8}, []setup.Offload{""}
		}},
		"four cards": {smallLlama, func(r *Request) {
			r.GPUs, r.Axes.MicroBatch, r.Axes.Optimizer = 4, []int{1, 2}, []torch.Optimizer{"adamw", "adamw-fused"}
		}},
		"a plain loop": {smallBERT, func(r *Request) { r.Job.Loop, r.Job.Attn, r.Axes.MicroBatch = "plain", "eager", []int{2, 8} }},
		"activations away": {smallBERT, func(r *Request) {
			r.Axes.Offload = []setup.Offload{"", setup.OffloadActivations, setup.OffloadBoth}
			r.Axes.MicroBatch = []int{2, 8}
		}},
		"layers not alike":  {smallT5, func(r *Request) { r.Job.TargetSeq, r.Axes.MicroBatch = 64, []int{2, 8} }},
		"frozen embeddings": {smallBERT, func(r *Request) { r.Job.Freeze, r.Axes.MicroBatch = []string{"bert.embeddings"}, []int{4, 8} }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			known := &sync.Map{}
			for _, mib := range []units.Bytes{60, 190, 240, 300, 400, 600, 2000} {
				r := small(t, change.config, mib*units.MiB)
				change.set(&r)
				r.Machine.Capacity += shard.NCCL(r.GPUs, r.Machine.Card.NVLink > 0)
				want, got := fitting(everything(t, r, known)), fitting(find(t, r))
				if len(got) > len(want) || len(got) < min(len(want), r.Plans) {
					t.Errorf("%d MiB: %d plans of %d", mib, len(got), len(want))
					continue
				}
				if !slices.EqualFunc(got, want[:len(got)], func(a, b report.Plan) bool { return fmt.Sprintf("%+v", a) == fmt.Sprintf("%+v", b) }) {
					t.Errorf("%d MiB:\n%+v\nfound by trying everything:\n%+v", mib, got, want[:len(got)])
				}
			}
		})
	}
}
