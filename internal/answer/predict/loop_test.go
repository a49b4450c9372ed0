package predict

import (
	"testing"

	"github.com/plimsoll/plimsoll/internal/model/hfconfig"
	"github.com/plimsoll/plimsoll/internal/model/job"
	"github.com/plimsoll/plimsoll/internal/setup"
	"github.com/plimsoll/plimsoll/internal/torch"
	"github.com/plimsoll/plimsoll/internal/units"
)

const llama1B = `{"model_type":"llama","hidden_size":2048,"intermediate_size":8192,"num_hidden_layers":16,"num_attention_heads":32,"num_key_value_heads":8,"head_dim":64,"vocab_size":128256,"tie_word_embeddings":true}`

// Measured on an H200 with PyTorch 2.11: files that fit wrote for Llama 3.2 1B, run by the real libraries (docs/measurements/2026-11-15-h200-written-plans.md).
func TestALoopThatKeepsOnlyTheLossIsWhatTrainerAndLightningRun(t *testing.T) {
	t.Parallel()
	c, err := hfconfig.Parse([]byte(llama1B))
	if err != nil {
		t.Fatal(err)
	}
	for name, row := range map[string]struct {
		seq       int
		precision torch.Precision
		optimizer torch.Optimizer
		zero      string
		measured  units.Bytes
	}{
		"trainer":   {2048, "bf16", "adamw", "", 34043298304},
		"torch":     {2048, "amp-bf16", "adamw-fused", "", 43122740736},
		"lightning": {1024, "bf16", "adamw-fused", "before-backward", 21134118912},
	} {
		j := job.Job{Source: "hf", Config: []byte("{}"), Task: "causal-lm", Batch: 8, Seq: row.seq, Optimizer: row.optimizer, Checkpointing: true, Loop: setup.LossOnly, ZeroGrad: row.zero}
		j.SetPrecision(row.precision)
		if err := j.Check(); err != nil {
			t.Fatal(err)
		}
		res, err := Run(j, Source{Config: c}, h200(t))
		if err != nil {
			t.Fatal(err)
		}
		if off := res.Report.Peak.Allocated - row.measured; off > units.MiB || off < -units.MiB {
			t.Errorf("%s: predicted %s, measured %s", name, res.Report.Peak.Allocated, row.measured)
		}
	}
}
