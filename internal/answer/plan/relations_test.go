package plan

import (
	"slices"
	"testing"

	"github.com/plimsoll/plimsoll/internal/answer/predict"
	"github.com/plimsoll/plimsoll/internal/answer/report"
	"github.com/plimsoll/plimsoll/internal/gpu"
	"github.com/plimsoll/plimsoll/internal/model/hfconfig"
	"github.com/plimsoll/plimsoll/internal/model/job"
	"github.com/plimsoll/plimsoll/internal/setup"
	"github.com/plimsoll/plimsoll/internal/torch"
	"github.com/plimsoll/plimsoll/internal/units"
)

// middle is a job of a model that fits somewhere between 4 and 24 GiB.
func middle(tb testing.TB, limit units.Bytes) Request {
	tb.Helper()
	c, err := hfconfig.Parse([]byte(`{"model_type":"llama","hidden_size":1024,"intermediate_size":4096,"num_hidden_layers":12,"num_attention_heads":16,
		"num_key_value_heads":16,"vocab_size":32000,"max_position_embeddings":4096}`))
	if err != nil {
		tb.Fatal(err)
	}
	j := job.Job{Source: "hf", Config: []byte("{}"), Task: "causal-lm", Batch: 16, Seq: 1024, Autocast: "bf16"}
	if err := j.Check(); err != nil {
		tb.Fatal(err)
	}
	card, err := gpu.Find("h200")
	if err != nil {
		tb.Fatal(err)
	}
	return Request{Job: j, Source: predict.Source{Config: c}, Machine: predict.Machine{Card: card, Capacity: limit}, Effective: 16}
}

func find(tb testing.TB, r Request) *report.Fit {
	tb.Helper()
	fit, err := Find(r)
	if err != nil {
		tb.Fatal(err)
	}
	return fit
}

func TestMoreMemoryIsNeverSlower(t *testing.T) {
	t.Parallel()
	last := 0.0
	for _, gib := range []units.Bytes{24, 12, 8} {
		fit := find(t, middle(t, gib*units.GiB))
		if len(fit.Plans) == 0 || !fit.Plans[0].Fits {
			continue
		}
		p := fit.Plans[0]
		if p.StepMS < last*(1-tieHost) {
			t.Errorf("%d GiB: %.1f ms a step, with more memory %.1f ms", gib, p.StepMS, last)
		}
		if p.Safe+predict.Capacity(middle(t, gib*units.GiB).Machine)-predict.Room(middle(t, gib*units.GiB).Machine) > gib*units.GiB || p.Headroom < 0 {
			t.Errorf("%d GiB: the first plan needs %s", gib, p.Safe)
		}
		last = p.StepMS
	}
	if last == 0 {
		t.Error("nothing fits anywhere")
	}
}

func TestSelectiveCheckpointingLiesBetweenNoneAndFull(t *testing.T) {
	t.Parallel()
	selective := 0
	for _, gib := range []units.Bytes{10, 8} {
		r := middle(t, gib*units.GiB)
		fit := find(t, r)
		for _, p := range fit.Plans {
			if p.Checkpointing != setup.Selective {
				continue
			}
			selective++
			if p.Layers < 1 || p.Layers >= p.OfLayers || p.OfLayers != 12 {
				t.Errorf("%d GiB: %d of %d layers", gib, p.Layers, p.OfLayers)
			}
			full := slices.IndexFunc(fit.Plans, func(o report.Plan) bool {
				return o.Fits && o.Checkpointing == setup.Full && o.MicroBatch == p.MicroBatch && o.Offload == p.Offload
			})
			if full >= 0 && fit.Plans[full].StepMS < p.StepMS {
				t.Errorf("%d GiB, micro-batch %d: %d layers checkpointed take longer than all of them", gib, p.MicroBatch, p.Layers)
			}
		}
	}
	if selective == 0 {
		t.Error("no limit has a selective plan")
	}
}

func TestASelectivePlanNeedsAllItsLayers(t *testing.T) {
	t.Parallel()
	r := middle(t, 10*units.GiB)
	for _, p := range find(t, r).Plans {
		if p.Checkpointing != setup.Selective || !p.Fits {
			continue
		}
		if p.Offload != "" || p.Conf != torch.ExpandableSegments {
			continue
		}
		s, err := newSearch(r)
		if err != nil {
			t.Fatal(err)
		}
		at := p.Setup
		if m := s.need(at); m.safe != p.Safe || m.safe > s.room {
			t.Errorf("micro-batch %d with %d layers: %s, the plan says %s", p.MicroBatch, p.Layers, m.safe, p.Safe)
		}
		for fewer := range p.Layers {
			if m := s.need(at.Checkpointed(fewer)); m.safe <= s.room {
				t.Errorf("micro-batch %d: %d layers would do, %d are checkpointed", p.MicroBatch, fewer, p.Layers)
			}
		}
	}
}

func TestTheSearchRepeats(t *testing.T) {
	t.Parallel()
	a, b := find(t, middle(t, 12*units.GiB)), find(t, middle(t, 12*units.GiB))
	if len(a.Plans) != len(b.Plans) || a.Predicted != b.Predicted {
		t.Fatalf("%d plans from %d predictions, then %d from %d", len(a.Plans), a.Predicted, len(b.Plans), b.Predicted)
	}
	for i := range a.Plans {
		if a.Plans[i].MicroBatch != b.Plans[i].MicroBatch || a.Plans[i].StepMS != b.Plans[i].StepMS || a.Plans[i].Safe != b.Plans[i].Safe {
			t.Errorf("plan %d differs", i+1)
		}
	}
}
