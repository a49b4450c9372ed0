package predict

import (
	"testing"

	"github.com/plimsoll/plimsoll/internal/answer/report"
	"github.com/plimsoll/plimsoll/internal/model/hfconfig"
	"github.com/plimsoll/plimsoll/internal/model/job"
	"github.com/plimsoll/plimsoll/internal/model/shard"
)

const tinyLlama = `{"model_type":"llama","hidden_size":512,"intermediate_size":1024,"num_hidden_layers":4,"num_attention_heads":8,"num_key_value_heads":4,"vocab_size":1000}`

func runTiny(t *testing.T, change func(*job.Job)) report.Prediction {
	t.Helper()
	c, err := hfconfig.Parse([]byte(tinyLlama))
	if err != nil {
		t.Fatal(err)
	}
	j := job.Job{Source: "hf", Config: []byte("{}"), Task: "causal-lm", Batch: 2, Seq: 64, ParamDType: "bf16"}
	change(&j)
	if err := j.Check(); err != nil {
		t.Fatal(err)
	}
	r, err := Run(j, Source{Config: c}, h200(t))
	if err != nil {
		t.Fatal(err)
	}
	return r.Report
}

func TestAdaptersTrainTheirOwnParametersOnly(t *testing.T) {
	t.Parallel()
	full := runTiny(t, func(*job.Job) {})
	lora := runTiny(t, func(j *job.Job) { j.LoRARank = 8 })
	quantized := runTiny(t, func(j *job.Job) { j.LoRARank, j.BaseBits = 8, 4 })
	// q_proj is 512→512 and v_proj 512→256, in four layers.
	if want := int64(4 * 8 * (512 + 512 + 512 + 256)); lora.Trainable != want || lora.Params != full.Params+want {
		t.Errorf("%d trainable parameters of %d, want %d of %d", lora.Trainable, lora.Params, want, full.Params+want)
	}
	if lora.Phases["optimizer"] >= full.Phases["optimizer"] {
		t.Errorf("the optimizer of LoRA needs %d, of full training %d", lora.Phases["optimizer"], full.Phases["optimizer"])
	}
	if quantized.AfterLoad >= lora.AfterLoad {
		t.Errorf("a quantized base takes %d bytes, a bf16 one %d", quantized.AfterLoad, lora.AfterLoad)
	}
}

func TestASpreadJobNeedsLessOnEachCard(t *testing.T) {
	t.Parallel()
	c, err := hfconfig.Parse([]byte(tinyLlama))
	if err != nil {
		t.Fatal(err)
	}
	j := job.Job{Source: "hf", Config: []byte("{}"), Task: "causal-lm", Batch: 2, Seq: 64}
	if err := j.Check(); err != nil {
		t.Fatal(err)
	}
	need := func(s Spread) report.Sharded {
		r, err := RunSpread(j, Source{Config: c}, h200(t), s)
		if err != nil {
			t.Fatal(err)
		}
		return *r.Report.Sharded
	}
	ddp := need(Spread{Plan: shard.Plan{Kind: "ddp", Ranks: 4}})
	fsdp := need(Spread{Plan: shard.Plan{Kind: "fsdp2", Ranks: 4}})
	both := need(Spread{Plan: shard.Plan{Kind: "fsdp2", Ranks: 4}, Tensor: 2})
	two, four := need(Spread{Plan: shard.Plan{Ranks: 1, Stages: 2}}), need(Spread{Plan: shard.Plan{Ranks: 1, Stages: 4}})
	if two.Allocated == 0 || four.Allocated == 0 || len(four.Assumptions) == 0 {
		t.Errorf("pipeline stages: %+v, %+v", two, four)
	}
	if fsdp.Allocated >= ddp.Allocated || both.Allocated >= fsdp.Allocated {
		t.Errorf("ddp %d, fsdp2 %d, with tensor parallel %d", ddp.Allocated, fsdp.Allocated, both.Allocated)
	}
}

func TestAShortenedTapeKeepsThePeak(t *testing.T) {
	t.Parallel()
	c, err := hfconfig.Parse([]byte(tinyLlama))
	if err != nil {
		t.Fatal(err)
	}
	j := job.Job{Source: "hf", Config: []byte("{}"), Task: "causal-lm", Batch: 2, Seq: 64}
	if err := j.Check(); err != nil {
		t.Fatal(err)
	}
	r, err := Run(j, Source{Config: c}, h200(t))
	if err != nil {
		t.Fatal(err)
	}
	peak := requested(r.Tape)
	for _, n := range []int{1, 7, 200, 1 << 20} {
		found := false
		for _, m := range Moments(r.Tape, n) {
			found = found || m.Requested == peak
		}
		if !found {
			t.Errorf("the peak is not among about %d moments", n)
		}
	}
}
