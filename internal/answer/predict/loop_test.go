package predict

import (
	"math"
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

const qwen06B = `{"model_type":"qwen3","hidden_size":1024,"intermediate_size":3072,"num_hidden_layers":28,"num_attention_heads":16,"num_key_value_heads":8,"head_dim":128,"vocab_size":151936,"tie_word_embeddings":true}`

// A model that Accelerate prepared copies its outputs to fp32 under autocast: a loop that keeps them holds four bytes of every logit through backward, not two.
// The loop that keeps only the loss was measured on an H200 (docs/measurements/2026-11-16-h200-written-plans.md).
func TestAcceleratesOutputsAreFP32(t *testing.T) {
	t.Parallel()
	c, err := hfconfig.Parse([]byte(qwen06B))
	if err != nil {
		t.Fatal(err)
	}
	allocated := func(loop setup.Loop, floats bool) units.Bytes {
		j := job.Job{Source: "hf", Config: []byte("{}"), Task: "causal-lm", Batch: 2, Accumulate: 8, Seq: 1024, Optimizer: "adamw-fused", Loop: loop, FloatOutputs: floats, Load: setup.LoadHost}
		j.SetPrecision("amp-bf16")
		if err := j.Check(); err != nil {
			t.Fatal(err)
		}
		res, err := Run(j, Source{Config: c}, h200(t))
		if err != nil {
			t.Fatal(err)
		}
		return res.Report.Peak.Allocated
	}
	if off := allocated(setup.LossOnly, true) - 19265111040; off > units.MiB || off < -units.MiB {
		t.Errorf("only the loss is kept: %d bytes off", off)
	}
	logits := units.Bytes(2 * 1024 * 151936)
	if more := allocated(setup.Function, true) - allocated(setup.Function, false); more < 2*logits || more > 2*logits+4*units.MiB {
		t.Errorf("outputs in fp32 take %d bytes more than in bf16; logits have %d elements", more, logits)
	}
}

// Lightning's autocast keeps no casts of parameters. OPT 1.3B, 6 × 1024 twice a step, every layer checkpointed: with casts the forward pass would be the highest moment. Measured on an H200 with the file that
// fit wrote (docs/measurements/2026-11-16-h200-written-plans.md).
func TestLightningKeepsNoCasts(t *testing.T) {
	t.Parallel()
	c, err := hfconfig.Parse([]byte(`{"model_type":"opt","hidden_size":2048,"ffn_dim":8192,"num_hidden_layers":24,"num_attention_heads":32,"vocab_size":50272,"max_position_embeddings":2048,"word_embed_proj_dim":2048,"do_layer_norm_before":true}`))
	if err != nil {
		t.Fatal(err)
	}
	for uncached, want := range map[bool]float64{true: 24.511, false: 26.233} {
		j := job.Job{Source: "hf", Config: []byte("{}"), Task: "causal-lm", Batch: 6, Accumulate: 2, Seq: 1024, Autocast: "bf16", Optimizer: "adamw-fused", Checkpointing: true, Loop: setup.LossOnly,
			ZeroGrad: "before-backward", Load: setup.LoadHost, UncachedCasts: uncached}
		if err := j.Check(); err != nil {
			t.Fatal(err)
		}
		r, err := Run(j, Source{Config: c}, h200(t))
		if err != nil {
			t.Fatal(err)
		}
		if got := float64(r.Report.Peak.Allocated) / float64(units.GiB); math.Abs(got/want-1) > 0.001 {
			t.Errorf("uncached %v: %.3f GiB, want %.3f", uncached, got, want)
		}
	}
}
