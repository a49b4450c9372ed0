package predict

import (
	"math"
	"strings"
	"testing"

	"github.com/plimsoll/plimsoll/internal/gpu"
	"github.com/plimsoll/plimsoll/internal/memory/alloc"
	"github.com/plimsoll/plimsoll/internal/model/hfconfig"
	"github.com/plimsoll/plimsoll/internal/model/job"
	"github.com/plimsoll/plimsoll/internal/model/shard"
	"github.com/plimsoll/plimsoll/internal/setup"
	"github.com/plimsoll/plimsoll/internal/torch"
	"github.com/plimsoll/plimsoll/internal/units"
)

const llama8B = `{"model_type":"llama","hidden_size":4096,"intermediate_size":14336,"num_hidden_layers":32,"num_attention_heads":32,"num_key_value_heads":8,"vocab_size":128256,"max_position_embeddings":8192,"tie_word_embeddings":false}`

const mistral1B = `{"model_type":"mistral","hidden_size":2304,"intermediate_size":6144,"num_hidden_layers":18,"num_attention_heads":18,"num_key_value_heads":6,"head_dim":128,"vocab_size":32768,"max_position_embeddings":32768,"sliding_window":null,"tie_word_embeddings":false}`

// h100 is the card of the public rows.
func h100(tb testing.TB) gpu.Card {
	tb.Helper()
	card, err := gpu.Find("h100-80g")
	if err != nil {
		tb.Fatal(err)
	}
	return card
}

// onEight is Llama-3-8B with sequences of 4096 on eight H100.
func onEight(tb testing.TB, kind setup.Sharding, layers int, change func(*job.Job)) *Result {
	tb.Helper()
	c, err := hfconfig.Parse([]byte(llama8B))
	if err != nil {
		tb.Fatal(err)
	}
	j := job.Job{Source: "hf", Config: []byte("{}"), Task: "causal-lm", Batch: 1, Seq: 4096, Autocast: "bf16", Checkpointing: layers != 0, Layers: max(layers, 0)}
	change(&j)
	if err := j.Check(); err != nil {
		tb.Fatal(err)
	}
	r, err := RunSpread(j, Source{Config: c}, Machine{Card: h100(tb), Conf: alloc.Conf{Expandable: j.Code != ""}, Torch: version(j)}, Spread{Plan: shard.Plan{Kind: kind, Ranks: 8}})
	if err != nil {
		tb.Fatal(err)
	}
	return r
}

// version is the PyTorch of a row.
func version(j job.Job) torch.Version {
	if j.Code == setup.Torchtitan2025 {
		v, _ := torch.ParseVersion("2.6")
		return v
	}
	return torch.Version{}
}

// Peak reserved memory of each of 8 H100, torchtitan with fully_shard and MixedPrecisionPolicy in bf16, eager, local batch 1, no, every second and every layer
// checkpointed: https://github.com/pytorch/ao/blob/36027d82d1ad/torchao/prototype/float8nocompile/README.md
func TestFullyShardedRows(t *testing.T) {
	t.Parallel()
	for layers, measured := range map[int]float64{0: 53.12, 16: 40.60, -1: 28.07} {
		r := onEight(t, setup.FSDP2, layers, func(j *job.Job) { j.Code, j.Loop = setup.Torchtitan2025, setup.LossOnly })
		got := float64(r.Report.Sharded.Reserved) / float64(units.GiB)
		t.Logf("%3d layers checkpointed: %.2f GiB predicted, %.2f measured (%+.1f %%)", layers, got, measured, 100*(got/measured-1))
		if math.Abs(got/measured-1) > 0.01 {
			t.Errorf("%d layers checkpointed: %.2f GiB predicted, %.2f measured", layers, got, measured)
		}
	}
}

// DeepSpeed keeps masters beside the parameters, and two moments. Of its bf16 engine they are fp32, 12 bytes per parameter over the ranks, where they would have 6 in the type of the parameters.
func TestDeepSpeedKeepsMasters(t *testing.T) {
	t.Parallel()
	bf16 := func(j *job.Job) { j.Autocast, j.ParamDType, j.Optimizer = "", "bf16", "adamw-fused" }
	with := onEight(t, setup.ZeRO3, -1, bf16)
	c, _ := hfconfig.Parse([]byte(llama8B))
	j := job.Job{Source: "hf", Config: []byte("{}"), Task: "causal-lm", Batch: 1, Seq: 4096, ParamDType: "bf16", Optimizer: "adamw-fused", Checkpointing: true}
	if err := j.Check(); err != nil {
		t.Fatal(err)
	}
	card, _ := gpu.Find("h100-80g")
	without, err := RunPart(j, Source{Config: c}, Machine{Card: card}, Spread{Plan: shard.Plan{Kind: setup.ZeRO3, Ranks: 8, Element: 2}})
	if err != nil {
		t.Fatal(err)
	}
	more := float64(with.Report.Sharded.Allocated - without.Report.Sharded.Allocated)
	if want := 6.0 * float64(with.Report.Params) / 8; math.Abs(more/want-1) > 0.02 {
		t.Errorf("masters and wider state add %.2f GiB a card, want %.2f", more/float64(units.GiB), want/float64(units.GiB))
	}
}

// Ranks of DeepSpeed 0.19.8 on an H200: plans that fit wrote, two micro-batches a step, with a process group whose collectives do nothing
// (docs/measurements/2026-11-16-h200-written-plans.md).
func TestRanksOfDeepSpeedAsMeasured(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		config             string
		kind               setup.Sharding
		ranks, batch, seq  int
		measured, reserved units.Bytes
		off                float64
	}{
		"stage 1, llama": {llama1B, setup.ZeRO1, 4, 2, 2048, 24263931904, 24693964800, 0.005},
		"stage 2, llama": {llama1B, setup.ZeRO2, 4, 2, 2048, 21439389696, 22592618496, 0.005},
		"stage 3, llama": {llama1B, setup.ZeRO3, 4, 2, 2048, 22576432128, 25635586048, 0.005},
		"stage 1, qwen":  {qwen06B, setup.ZeRO1, 8, 4, 1024, 21333328384, 23819452416, 0.005},
		"stage 2, qwen":  {qwen06B, setup.ZeRO2, 8, 4, 1024, 19452379136, 21330132992, 0.005},
		"stage 3, qwen":  {qwen06B, setup.ZeRO3, 8, 4, 1024, 20518238720, 23496491008, 0.005},
		// Not seen before: a model whose head is not its embedding, and one of 16 GB.
		"stage 3, mistral": {mistral1B, setup.ZeRO3, 8, 2, 2048, 14641266688, 18201182208, 0.005},
		"stage 2, 8B":      {llama8B, setup.ZeRO2, 8, 1, 1024, 39279152128, 52649000960, 0.005},
		// Its highest moment is the step, which flattens gradients and casts them.
		"stage 2, 8B, short": {llama8B, setup.ZeRO2, 8, 1, 512, 36324685742, 52720723558, 0.002},
	} {
		c, err := hfconfig.Parse([]byte(row.config))
		if err != nil {
			t.Fatal(err)
		}
		j := job.Job{Source: "hf", Config: []byte("{}"), Task: "causal-lm", Batch: row.batch, Accumulate: 2, Seq: row.seq, ParamDType: "bf16", Optimizer: "adamw-fused"}
		if err := j.Check(); err != nil {
			t.Fatal(err)
		}
		r, err := RunPart(j, Source{Config: c}, h200(t), Spread{Plan: shard.Plan{Kind: row.kind, Ranks: row.ranks, Masters: true}})
		if err != nil {
			t.Fatal(err)
		}
		if off := float64(r.Report.Sharded.Allocated)/float64(row.measured) - 1; math.Abs(off) > row.off {
			t.Errorf("%s: predicted %s, measured %s (%+.2f %%)", name, r.Report.Sharded.Allocated.Short(), row.measured.Short(), 100*off)
		}
		if r.Report.Sharded.Safe < row.reserved {
			t.Errorf("%s: bound %s, but %s were reserved", name, r.Report.Sharded.Safe.Short(), row.reserved.Short())
		}
	}
}

// Ranks of torchtitan 0.2.2 with context parallelism on an H200, PyTorch 2.11: bf16 policy, expandable segments, the first card of its group
// (docs/measurements/2026-11-16-h200-written-plans.md).
func TestRanksThatDivideASampleAsMeasured(t *testing.T) {
	t.Parallel()
	untied := strings.Replace(llama1B, `"tie_word_embeddings":true`, `"tie_word_embeddings":false`, 1)
	for name, row := range map[string]struct {
		config                          string
		seq, ranks, context, batch, acc int
		checkpointed                    bool
		optimizer                       torch.Optimizer
		measured, reserved              float64 // GiB
	}{
		"whole samples":       {untied, 2048, 4, 1, 1, 1, false, "adamw-fused", 10.507, 13.305},
		"2 cards":             {untied, 4096, 4, 2, 1, 1, false, "adamw-fused", 10.640, 13.430},
		"2 cards, batch 2":    {untied, 4096, 4, 2, 2, 1, false, "adamw-fused", 16.541, 19.811},
		"4 cards, accumulate": {untied, 16384, 8, 4, 1, 2, true, "adamw-fused", 9.499, 11.516},
		"8 cards, 8B":         {llama8B, 32768, 8, 8, 1, 1, true, "adamw", 19.208, 26.000},
	} {
		c, err := hfconfig.Parse([]byte(row.config))
		if err != nil {
			t.Fatal(err)
		}
		j := job.Job{Source: "hf", Config: []byte("{}"), Task: "causal-lm", Batch: row.batch, Accumulate: row.acc, Seq: row.seq, Context: row.context, Code: setup.Torchtitan, Loop: setup.LossOnly,
			ParamDType: "bf16", Optimizer: row.optimizer, Checkpointing: row.checkpointed}
		if err := j.Check(); err != nil {
			t.Fatal(err)
		}
		m := h200(t)
		m.Conf.Expandable = true
		r, err := RunPart(j, Source{Config: c}, m, Spread{Plan: shard.Plan{Kind: setup.FSDP2, Ranks: row.ranks, Masters: true, Code: setup.Torchtitan}})
		if err != nil {
			t.Fatal(err)
		}
		got := r.Report.Sharded
		for what, of := range map[string][2]float64{"in use": {float64(got.Allocated), row.measured}, "reserved": {float64(got.Reserved), row.reserved}} {
			if off := of[0]/float64(units.GiB)/of[1] - 1; math.Abs(off) > 0.001 {
				t.Errorf("%s: %s %.3f GiB, measured %.3f (%+.2f %%)", name, what, of[0]/float64(units.GiB), of[1], 100*off)
			}
		}
	}
}
