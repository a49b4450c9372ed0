package wholerun

import (
	"encoding/json"
	"runtime/debug"
	"testing"

	"github.com/plimsoll/plimsoll/internal/answer/predict"
	"github.com/plimsoll/plimsoll/internal/gpu"
	"github.com/plimsoll/plimsoll/internal/model/hfconfig"
	"github.com/plimsoll/plimsoll/internal/model/job"
	"github.com/plimsoll/plimsoll/internal/model/lengths"
	"github.com/plimsoll/plimsoll/internal/torch"
	"github.com/plimsoll/plimsoll/internal/units"
)

// BenchmarkEightBillion is 10,000 steps of a model with 8 billion parameters whose batches have 1,400 different shapes, free and under a limit.
func BenchmarkEightBillion(b *testing.B) {
	raw := json.RawMessage(`{"architectures":["LlamaForCausalLM"],"model_type":"llama","hidden_size":4096,"intermediate_size":14336,"num_hidden_layers":32,"num_attention_heads":32,"num_key_value_heads":8,"vocab_size":128256,"max_position_embeddings":8192,"rms_norm_eps":1e-5,"rope_theta":500000.0,"tie_word_embeddings":false,"hidden_act":"silu"}`)
	config, err := hfconfig.Parse(raw)
	if err != nil {
		b.Fatal(err)
	}
	card, _ := gpu.Find("h200")
	d, _ := lengths.ParseDistribution("lognormal:300,0.7,max=2048")
	j := job.Job{Source: "hf", Config: raw, Task: "causal-lm", Batch: 4, Seq: 8, Optimizer: "adamw", ParamDType: torch.BF16}
	if err := j.Check(); err != nil {
		b.Fatal(err)
	}
	defer debug.SetGCPercent(debug.SetGCPercent(400)) // as the command does
	for b.Loop() {
		q := Question{Job: j, Source: predict.Source{Config: config}, Machine: predict.Machine{Card: card, Capacity: 139 * units.GiB}, Lengths: Lengths{Drawn: &d}, Steps: 10000,
			Batching: lengths.Batching{Sampler: lengths.Random, Batch: 4, Seed: 1}}
		if _, _, err := Answer(q); err != nil {
			b.Fatal(err)
		}
	}
}
