package predict

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/plimsoll/plimsoll/internal/memory/tape"
	"github.com/plimsoll/plimsoll/internal/model/eager"
	"github.com/plimsoll/plimsoll/internal/model/hfconfig"
	"github.com/plimsoll/plimsoll/internal/model/job"
	"github.com/plimsoll/plimsoll/internal/setup"
	"github.com/plimsoll/plimsoll/internal/torch"
	"github.com/plimsoll/plimsoll/internal/units"
)

// smallLlama draws a small model and job.
func smallLlama(t *rapid.T) (config string, j job.Job) {
	heads := rapid.SampledFrom([]int{2, 4, 8}).Draw(t, "heads")
	kv := rapid.SampledFrom([]int{1, 2}).Draw(t, "kv")
	config = fmt.Sprintf(`{"model_type":"llama","hidden_size":%d,"intermediate_size":%d,"num_hidden_layers":LAYERS,"num_attention_heads":%d,"num_key_value_heads":%d,"vocab_size":%d}`,
		heads*32, rapid.SampledFrom([]int{128, 512}).Draw(t, "width"), heads, kv, rapid.SampledFrom([]int{100, 3000}).Draw(t, "vocabulary"))
	j = job.Job{
		Source: "hf", Config: []byte("{}"), Task: "causal-lm", Batch: rapid.IntRange(1, 6).Draw(t, "batch"), Seq: 16 * rapid.IntRange(1, 16).Draw(t, "seq"),
		Optimizer: rapid.SampledFrom([]torch.Optimizer{"adamw", "sgd", "adamw-fused", "adafactor"}).Draw(t, "optimizer"),
		Loop:      rapid.SampledFrom([]setup.Loop{"function", "plain"}).Draw(t, "loop"), Checkpointing: rapid.Bool().Draw(t, "checkpointing"),
	}
	j.SetPrecision(rapid.SampledFrom([]torch.Precision{"fp32", "amp-bf16", "bf16"}).Draw(t, "precision"))
	return config, j
}

// requested is the highest number of bytes asked for at a time. Blocks are rounded and not always split, so that allocated bytes
// are a little less regular, in PyTorch as here.
func requested(t *tape.Tape) (peak units.Bytes) {
	var now units.Bytes
	for i := range t.Events {
		switch e := &t.Events[i]; e.Kind {
		case tape.Alloc:
			now += e.Size
			peak = max(peak, now)
		case tape.Free:
			now -= e.Size
		}
	}
	return peak
}

func runSmall(t *rapid.T, m Machine, config string, layers int, j job.Job) *Result {
	if err := j.Check(); err != nil {
		t.Fatal(err)
	}
	c, err := hfconfig.Parse([]byte(strings.ReplaceAll(config, "LAYERS", fmt.Sprint(layers))))
	if err != nil {
		t.Fatal(err)
	}
	r, err := Run(j, Source{Config: c}, m)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestMoreOfAnythingNeverNeedsLess(t *testing.T) {
	t.Parallel()
	m := h200(t)
	rapid.Check(t, func(t *rapid.T) {
		config, j := smallLlama(t)
		base := requested(runSmall(t, m, config, 2, j).Tape)
		check := func(what string, r *Result) {
			if got := requested(r.Tape); got < base {
				t.Errorf("more %s: %d instead of %d bytes", what, got, base)
			}
		}
		more := j
		more.Batch++
		check("batch", runSmall(t, m, config, 2, more))
		more = j
		more.Seq += 16
		check("sequence", runSmall(t, m, config, 2, more))
		check("layers", runSmall(t, m, config, 3, j))
		more = j
		more.Accumulate = 2
		check("accumulation", runSmall(t, m, config, 2, more))
		if j.ParamDType == "bf16" {
			more = j
			more.ParamDType = "fp32"
			check("precision", runSmall(t, m, config, 2, more))
		}
	})
}

func TestCheckpointingNeverKeepsMoreActivations(t *testing.T) {
	t.Parallel()
	m := h200(t)
	rapid.Check(t, func(t *rapid.T) {
		config, j := smallLlama(t)
		j.Checkpointing = false
		plain := runSmall(t, m, config, 3, j).Report
		j.Checkpointing = true
		kept := runSmall(t, m, config, 3, j).Report
		for step := range plain.Steps {
			if kept.Steps[step][eager.PhaseForward] > plain.Steps[step][eager.PhaseForward] {
				t.Errorf("step %d forward: %d bytes with checkpointing, %d without", step+1, kept.Steps[step][eager.PhaseForward], plain.Steps[step][eager.PhaseForward])
			}
		}
	})
}

func TestCategoriesAddUpToThePeak(t *testing.T) {
	t.Parallel()
	m := h200(t)
	rapid.Check(t, func(t *rapid.T) {
		config, j := smallLlama(t)
		r := runSmall(t, m, config, 1, j).Report
		sum := -r.ByCategory["context"]
		for name, b := range r.ByCategory {
			if b < 0 {
				t.Errorf("%s is %d", name, b)
			}
			sum += b
		}
		if sum != r.Peak.Allocated {
			t.Errorf("categories add up to %d, the peak is %d", sum, r.Peak.Allocated)
		}
		if r.Peak.Reserved < r.Peak.Allocated || r.Safe < r.Peak.Reserved || r.Peak.Device < r.Peak.Reserved {
			t.Errorf("allocated %d, reserved %d, safe %d, device %d", r.Peak.Allocated, r.Peak.Reserved, r.Safe, r.Peak.Device)
		}
	})
}

func TestEveryOptimizerWordIsModelled(t *testing.T) {
	t.Parallel()
	m := h200(t)
	c, err := hfconfig.Parse([]byte(`{"model_type":"llama","hidden_size":64,"intermediate_size":64,"num_hidden_layers":1,"num_attention_heads":2,"vocab_size":100}`))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range torch.Optimizers() {
		j := job.Job{Source: "hf", Config: []byte("{}"), Task: "causal-lm", Batch: 1, Seq: 8, Optimizer: torch.Optimizer(name)}
		if err := j.Check(); err != nil {
			t.Fatal(err)
		}
		if _, err := Run(j, Source{Config: c}, m); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
