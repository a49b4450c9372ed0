package predict

import (
	"testing"

	"github.com/plimsoll/plimsoll/internal/model/hfconfig"
	"github.com/plimsoll/plimsoll/internal/model/job"
	"github.com/plimsoll/plimsoll/internal/units"
)

func TestMemorySaversSaveWhatTheyAreFor(t *testing.T) {
	t.Parallel()
	const config = `{"model_type":"llama","hidden_size":512,"intermediate_size":1024,"num_hidden_layers":2,"num_attention_heads":8,"num_key_value_heads":2,"vocab_size":32000}`
	const rows, classes, hidden = 4 * 256, 32000, 512
	run := changed(t, job.Job{Config: []byte(config), Task: "causal-lm", Batch: 4, Seq: 256, ParamDType: "bf16"})
	plain := run(func(*job.Job) {})
	liger := run(func(j *job.Job) { j.LossKernel = "liger" })
	// Plain: logits in bf16 and fp32, and log-probabilities. Liger: both gradients, and of one piece its logits and products.
	if saved, least := plain.Phases["forward"]-liger.Phases["forward"], units.Bytes(rows*classes*(2+4+4)-classes*hidden*(2+2+4+2)-rows*hidden*8); saved < least {
		t.Errorf("liger saves %v in forward, at least %v are no longer there", saved, least)
	}
	chunked := run(func(j *job.Job) { j.LossKernel = "chunked" })
	if chunked.Peak.Allocated >= plain.Peak.Allocated {
		t.Errorf("chunked peaks at %v, plain at %v", chunked.Peak.Allocated, plain.Peak.Allocated)
	}
	within := run(func(j *job.Job) { j.InBackward = true })
	if within.ByCategory["gradients"] > plain.Phases["forward"]/2 || within.Phases["optimizer"] >= plain.Phases["optimizer"] {
		t.Errorf("with the optimizer in backward %v of gradients live at the peak", within.ByCategory["gradients"])
	}
	packed, padded := run(func(j *job.Job) { j.AttentionMask = job.MaskPacked }), run(func(j *job.Job) { j.AttentionMask = job.MaskPadded })
	if packed.Peak.Allocated != padded.Peak.Allocated {
		t.Errorf("packed rows %v, padded ones %v", packed.Peak.Allocated, padded.Peak.Allocated)
	}
}

func TestFusedLossesAreRefusedWhereThereIsNoneToFuse(t *testing.T) {
	t.Parallel()
	for _, config := range []string{`{"model_type":"bert","vocab_size":1000}`, `{"model_type":"t5","vocab_size":1000}`} {
		c, err := hfconfig.Parse([]byte(config))
		if err != nil {
			t.Fatal(err)
		}
		j := job.Job{Config: []byte(config), Task: c.Task(), Batch: 1, Seq: 8, TargetSeq: 8, LossKernel: "liger"}
		if j.Task != "seq2seq-lm" {
			j.TargetSeq = 0
		}
		if err := j.Check(); err != nil {
			continue
		}
		if _, err := Run(j, Source{Config: c}, h200(t)); err == nil {
			t.Errorf("%s: a fused loss was predicted", config)
		}
	}
}
