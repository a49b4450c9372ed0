package plan

import (
	"testing"

	"github.com/plimsoll/plimsoll/internal/answer/predict"
	"github.com/plimsoll/plimsoll/internal/gpu"
	"github.com/plimsoll/plimsoll/internal/model/hfconfig"
	"github.com/plimsoll/plimsoll/internal/model/job"
	"github.com/plimsoll/plimsoll/internal/torch"
)

// largeRequest is a full search over an 8B model: more than ten thousand configurations.
func largeRequest(tb testing.TB) Request {
	tb.Helper()
	c, err := hfconfig.Parse([]byte(`{"model_type":"llama","hidden_size":4096,"intermediate_size":14336,"num_hidden_layers":32,"num_attention_heads":32,
		"num_key_value_heads":8,"head_dim":128,"vocab_size":128256,"max_position_embeddings":131072,"tie_word_embeddings":false}`))
	if err != nil {
		tb.Fatal(err)
	}
	j := job.Job{Source: "hf", Config: []byte("{}"), Task: "causal-lm", Batch: 64, Seq: 2048, ParamDType: "bf16", Attn: "eager", Loop: "plain"}
	if err := j.Check(); err != nil {
		tb.Fatal(err)
	}
	card, err := gpu.Find("h100-80g")
	if err != nil {
		tb.Fatal(err)
	}
	r := Request{Job: j, Source: predict.Source{Config: c}, Machine: predict.Machine{Card: card}, Effective: 64, Numerics: true, Plans: 5}
	r.Axes.Optimizer = []torch.Optimizer{"adamw", "adamw-fused", "adamw-loop", "adamw-8bit", "adafactor", "sgdm", "sgd", "rmsprop", "adagrad", "amsgrad", "nadam", "radam", "adamax", "adam"}
	return r
}

func TestTenThousandConfigurationsAreConsidered(t *testing.T) {
	t.Parallel()
	fit, err := Find(largeRequest(t))
	if err != nil {
		t.Fatal(err)
	}
	if fit.Considered < 10_000 || len(fit.Plans) == 0 || !fit.Plans[0].Fits {
		t.Errorf("%d considered, %d predicted, first plan %+v", fit.Considered, fit.Predicted, fit.Plans)
	}
	if fit.Predicted*50 > fit.Considered {
		t.Errorf("%d of %d configurations had to be predicted", fit.Predicted, fit.Considered)
	}
}

// hardRequests are searches in which little or nothing fits: every faster plan has to be shown to be too large.
func hardRequests(tb testing.TB) map[string]Request {
	tb.Helper()
	large := `{"model_type":"llama","hidden_size":8192,"intermediate_size":28672,"num_hidden_layers":80,"num_attention_heads":64,
		"num_key_value_heads":8,"head_dim":128,"vocab_size":128256,"max_position_embeddings":131072,"tie_word_embeddings":false}`
	out := map[string]Request{}
	for name, c := range map[string]struct {
		config, card string
		cards        int
	}{
		"8B on 8 × H100":            {"", "h100-80g", 8},
		"8B on 8 × RTX 3060":        {"", "rtx-3060-12g", 8},
		"70B on 8 × A100 40 GB":     {large, "a100-40g", 8},
		"70B on 64 × RTX 4090":      {large, "rtx-4090", 64},
		"8B on an RTX 4090":         {"", "rtx-4090", 1},
		"8B on a B300, all of them": {"", "b300", 1},
	} {
		r := largeRequest(tb)
		r.Axes, r.Job.Attn, r.Job.Loop, r.Effective, r.GPUs = Axes{}, "sdpa", "function", 128, c.cards
		card, err := gpu.Find(c.card)
		if err != nil {
			tb.Fatal(err)
		}
		r.Machine.Card = card
		if c.config != "" {
			if r.Source.Config, err = hfconfig.Parse([]byte(c.config)); err != nil {
				tb.Fatal(err)
			}
		}
		out[name] = r
	}
	return out
}

func TestFewPlansArePredictedWhereFewFit(t *testing.T) {
	t.Parallel()
	for name, r := range hardRequests(t) {
		fit, err := Find(r)
		if err != nil {
			t.Fatal(err)
		}
		if fit.Predicted > 60 || fit.Considered < 1000 {
			t.Errorf("%s: %d of %d configurations had to be predicted", name, fit.Predicted, fit.Considered)
		}
		if len(fit.Plans) == 0 && len(fit.Least) == 0 {
			t.Errorf("%s: neither a plan nor the least that would do", name)
		}
	}
}

func BenchmarkHardSearches(b *testing.B) {
	for name, r := range hardRequests(b) {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := Find(r); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkFullSearchOf8B(b *testing.B) {
	r := largeRequest(b)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Find(r); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkCompare is the question without further flags: full fine-tuning, LoRA and QLoRA of an 8B model on one card, and what other numerics would buy.
func BenchmarkCompare(b *testing.B) {
	r := hardRequests(b)["8B on an RTX 4090"]
	r.Effective, r.Numerics = usualBatch, false
	b.ReportAllocs()
	for b.Loop() {
		fit, chosen, err := Compare(r)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := Beyond(fit, chosen); err != nil {
			b.Fatal(err)
		}
	}
}
