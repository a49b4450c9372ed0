package predict

import (
	"testing"

	"github.com/plimsoll/plimsoll/internal/answer/report"
	"github.com/plimsoll/plimsoll/internal/model/hfconfig"
	"github.com/plimsoll/plimsoll/internal/model/job"
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
