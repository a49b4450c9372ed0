package predict

import (
	"math"
	"strings"
	"testing"

	"github.com/plimsoll/plimsoll/internal/answer/report"
	"github.com/plimsoll/plimsoll/internal/model/exported"
	"github.com/plimsoll/plimsoll/internal/model/hfconfig"
	"github.com/plimsoll/plimsoll/internal/model/job"
	"github.com/plimsoll/plimsoll/internal/units"
)

func TestAdaptersTrainWhatPEFTTrains(t *testing.T) {
	t.Parallel()
	const config = `{"model_type":"llama","hidden_size":512,"intermediate_size":1024,"num_hidden_layers":2,"num_attention_heads":8,"num_key_value_heads":2,"vocab_size":1000,"tie_word_embeddings":true}`
	run := changed(t, job.Job{Config: []byte(config), Task: "causal-lm", Batch: 4, Seq: 128, ParamDType: "bf16", LoRARank: 8})
	plain := run(func(*job.Job) {})
	if want := int64(2 * 8 * (512 + 512 + 512 + 128)); plain.Trainable != want {
		t.Errorf("LoRA of rank 8 on q and v trains %d, want %d", plain.Trainable, want)
	}
	dora := run(func(j *job.Job) { j.DoRA = true })
	if want := plain.Trainable + 2*(512+128); dora.Trainable != want {
		t.Errorf("DoRA trains %d, want %d: a magnitude for each output beside LoRA's", dora.Trainable, want)
	}
	// Its graph keeps the base layer's result and the adapter's, in bf16 and fp32, of every layer.
	if want := plain.Peak.Allocated + 2*4*128*(512+128)*(2+4)*9/10; dora.Peak.Allocated < want {
		t.Errorf("DoRA peaks at %v, LoRA at %v", dora.Peak.Allocated, plain.Peak.Allocated)
	}
	whole := run(func(j *job.Job) { j.LoRATargets = []string{"all-linear"} })
	eight := run(func(j *job.Job) { j.LoRATargets, j.BaseBits = []string{"all-linear"}, 8 })
	four := run(func(j *job.Job) { j.LoRATargets, j.BaseBits = []string{"all-linear"}, 4 })
	if !(four.AfterLoad < eight.AfterLoad) || eight.Trainable != whole.Trainable || four.Params != whole.Params {
		t.Errorf("after loading: 4 bits %v, 8 bits %v, 16 bits %v", four.AfterLoad, eight.AfterLoad, whole.AfterLoad)
	}
}

// TestAdaptersOfAModelReadFromItsCodeAreThoseOfTheBuiltInOne: the same two models, read from transformers' code (batch 4, sequence 128, bf16) and built in.
func TestAdaptersOfAModelReadFromItsCodeAreThoseOfTheBuiltInOne(t *testing.T) {
	t.Parallel()
	models := map[string]string{
		"llama": `{"model_type":"llama","hidden_size":512,"intermediate_size":1024,"num_hidden_layers":8,"num_attention_heads":8,"num_key_value_heads":2,"vocab_size":1000,"tie_word_embeddings":false}`,
		"gpt2":  `{"model_type":"gpt2","n_embd":256,"n_layer":8,"n_head":4,"vocab_size":1000,"n_positions":512}`,
	}
	adapters := map[string]func(*job.Job){
		"all-linear": func(*job.Job) {},
		"dropout":    func(j *job.Job) { j.LoRADropout = 0.1 },
		"DoRA":       func(j *job.Job) { j.DoRA = true },
		"one":        func(j *job.Job) { j.LoRATargets, j.Checkpointing = []string{"attn.c_attn", "q_proj"}, true },
	}
	for name, config := range models {
		c, err := hfconfig.Parse([]byte(config))
		if err != nil {
			t.Fatal(err)
		}
		g := tracedGraph(t, "read-"+name+".json.gz")
		for what, change := range adapters {
			j := job.Job{Config: []byte(config), Task: "causal-lm", Batch: 4, Seq: 128, ParamDType: "bf16", LoRARank: 8, LoRATargets: []string{"all-linear"}}
			change(&j)
			if err := j.Check(); err != nil {
				t.Fatal(err)
			}
			built, err := Run(j, Source{Config: c}, h200(t))
			if err != nil {
				t.Fatalf("%s, %s: %v", name, what, err)
			}
			read, err := Run(j, Source{Graph: g}, h200(t))
			if err != nil {
				t.Fatalf("%s, %s: %v", name, what, err)
			}
			a, b := &built.Report, &read.Report
			if a.Trainable != b.Trainable || a.Params != b.Params || a.AfterLoad != b.AfterLoad || !within(a.Peak.Allocated, b.Peak.Allocated, 2e-5) {
				t.Errorf("%s, %s: built in %d trained, loaded %v, peak %v; read %d, %v, %v", name, what, a.Trainable, a.AfterLoad, a.Peak.Allocated, b.Trainable, b.AfterLoad, b.Peak.Allocated)
			}
		}
	}
}

// TestAdaptersThatAreNotBesideLinearLayers: measured on an H200 with PEFT 0.21 (docs/measurements/2026-11-16-h200-adapters.md), three steps each.
// Convolutions are adapted where a target names them; hubert's code lets the input of its frozen convolutions require a gradient.
func TestAdaptersThatAreNotBesideLinearLayers(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		graph     string
		job       job.Job
		trainable int64
		peak      units.Bytes
	}{
		{"sam3-lite-text", job.Job{Batch: 2, Seq: 256, ParamDType: "bf16", LoRARank: 4, LoRATargets: []string{"v_proj", "fc1"}}, 34816, 145395200},
		{"swiftformer", job.Job{Batch: 2, Seq: 128, ParamDType: "fp32", Autocast: "bf16", Checkpointing: true, LoRARank: 4, LoRATargets: []string{"proj", "to_key"}, LoRADropout: 0.05, DoRA: true}, 17564, 102120960},
		{"hubert", job.Job{Batch: 4, Seq: 256, ParamDType: "fp32", LoRARank: 4, LoRATargets: []string{"all-linear"}}, 176136, 1920739840},
	} {
		c.job.Source, c.job.Graph, c.job.Optimizer = "graph", c.graph, "adamw"
		if err := c.job.Check(); err != nil {
			t.Fatal(err)
		}
		res, err := Run(c.job, Source{Graph: tracedGraph(t, "read-"+c.graph+".json.gz")}, h200(t))
		if err != nil {
			t.Fatalf("%s: %v", c.graph, err)
		}
		if r := &res.Report; r.Trainable != c.trainable || !within(c.peak, r.Peak.Allocated, 1e-4) {
			t.Errorf("%s: %d trained, %d wanted; peak %d, measured %d", c.graph, r.Trainable, c.trainable, r.Peak.Allocated, c.peak)
		}
	}
}

// TestAdaptersBesideATableOfEmbeddings: PEFT gives it a table as wide as the rank and a matrix, and with DoRA a magnitude for each column.
func TestAdaptersBesideATableOfEmbeddings(t *testing.T) {
	t.Parallel()
	g := tracedGraph(t, "read-gpt2.json.gz")
	g.Trace.Tables = []exported.Table{{Name: "transformer.wte"}}
	for _, dora := range []bool{false, true} {
		j := job.Job{Source: "graph", Graph: "x", Batch: 4, Seq: 128, ParamDType: "bf16", LoRARank: 8, LoRATargets: []string{"wte"}, DoRA: dora}
		if err := j.Check(); err != nil {
			t.Fatal(err)
		}
		res, err := Run(j, Source{Graph: g}, h200(t))
		if err != nil {
			t.Fatal(err)
		}
		want := int64(8 * (1000 + 256))
		if dora {
			want += 256
		}
		if res.Report.Trainable != want {
			t.Errorf("DoRA %v: %d trained, %d wanted", dora, res.Report.Trainable, want)
		}
	}
}

func TestAGraphThatNamesNoLinearLayersTakesNoAdapters(t *testing.T) {
	t.Parallel()
	g := tracedGraph(t, "read-gpt2.json.gz")
	g.Trace.Linears = nil
	j := job.Job{Source: "graph", Graph: "x", Batch: 4, Seq: 128, LoRARank: 8}
	if err := j.Check(); err != nil {
		t.Fatal(err)
	}
	if _, err := Run(j, Source{Graph: g}, h200(t)); err == nil || !strings.Contains(err.Error(), "python train.py") {
		t.Errorf("%v", err)
	}
}

// within tells whether two sizes differ by a small share at most.
func within(a, b units.Bytes, share float64) bool { return math.Abs(float64(a-b)) <= share*float64(a) }

// changed predicts a job after a change to it.
func changed(t *testing.T, base job.Job) func(change func(*job.Job)) report.Prediction {
	t.Helper()
	c, err := hfconfig.Parse(base.Config)
	if err != nil {
		t.Fatal(err)
	}
	return func(change func(*job.Job)) report.Prediction {
		t.Helper()
		j := base
		change(&j)
		if err := j.Check(); err != nil {
			t.Fatal(err)
		}
		res, err := Run(j, Source{Config: c}, h200(t))
		if err != nil {
			t.Fatal(err)
		}
		return res.Report
	}
}

func TestTheTaskOfAModelReadFromItsCodeIsThatOfItsCode(t *testing.T) {
	t.Parallel()
	if got := (Source{Graph: tracedGraph(t, "read-llama.json.gz")}).Task(job.Job{}); got != "causal-lm" {
		t.Errorf("%q", got)
	}
}
