package plan

import (
	"testing"

	"github.com/plimsoll/plimsoll/internal/gpu"
	"github.com/plimsoll/plimsoll/internal/hfconfig"
	"github.com/plimsoll/plimsoll/internal/job"
	"github.com/plimsoll/plimsoll/internal/predict"
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
	r.Axes.Optimizer = []string{"adamw", "adamw-fused", "adamw-loop", "adamw-8bit", "adafactor", "sgdm", "sgd", "rmsprop", "adagrad", "amsgrad", "nadam", "radam", "adamax", "adam"}
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

func BenchmarkFullSearchOf8B(b *testing.B) {
	r := largeRequest(b)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Find(r); err != nil {
			b.Fatal(err)
		}
	}
}
