package fuzz

import (
	"bytes"
	"testing"

	"github.com/plimsoll/plimsoll/internal/answer/predict"
	"github.com/plimsoll/plimsoll/internal/gpu"
	"github.com/plimsoll/plimsoll/internal/model/hfconfig"
	"github.com/plimsoll/plimsoll/internal/model/job"
	"github.com/plimsoll/plimsoll/internal/show/screen"
	"github.com/plimsoll/plimsoll/internal/show/textout"
	"github.com/plimsoll/plimsoll/internal/testkit/hostile"
	"github.com/plimsoll/plimsoll/internal/units"
)

// predicting predicts configurations that nearly make sense: an answer's parts add up to its peak, and a refusal says why.
func predicting(f fuzzer) {
	var bases []*hostile.Document
	for _, text := range hostile.Configs {
		bases = append(bases, hostile.New([]byte(text)))
	}
	card, err := gpu.Find("h200")
	if err != nil {
		f.Fatal(err)
	}
	hostile.Seed(f, uint8(0))
	for i := range bases {
		f.Add([]byte{}, uint8(i))
	}
	f.Fuzz(func(t *testing.T, choices []byte, which uint8) {
		data := bases[int(which)%len(bases)].JSON(hostile.FromBytes(choices))
		j, c, ok := small(data)
		if !ok {
			return
		}
		res, err := predict.Run(j, predict.Source{Config: c}, predict.Machine{Card: card})
		if err != nil {
			if hostile.CheckText([]byte(err.Error())) != nil {
				t.Fatalf("%q", err)
			}
			return
		}
		balanced(t, res)
	})
}

// FuzzConfig predicts whatever configuration parses, byte by byte: errors are fine, crashes are not.
func FuzzConfig(f *testing.F) {
	for _, name := range hfconfig.Supported() {
		f.Add([]byte(`{"model_type":"` + name + `","hidden_size":64,"num_hidden_layers":1,"n_layer":1,"n_embd":64,"n_head":4,"num_attention_heads":4,"intermediate_size":64,"vocab_size":100,"d_model":64,"depths":[1,1],"image_size":32,"layer_types":null}`))
	}
	card, err := gpu.Find("h200")
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if j, c, ok := small(data); ok {
			_, _ = predict.Run(j, predict.Source{Config: c}, predict.Machine{Card: card})
		}
	})
}

// small is a job of a configuration that parses and is quick to predict.
func small(data []byte) (job.Job, *hfconfig.Config, bool) {
	c, err := hfconfig.Parse(data)
	if err != nil || deep(c) {
		return job.Job{}, nil, false
	}
	j := job.Job{Source: "hf", Config: data, Task: c.Task(), Batch: 2, Optimizer: "adamw"}
	switch j.Task {
	case "image-cls":
		j.Image = 32
	case "speech-seq2seq":
		j.TargetSeq = 4
	case "seq2seq-lm":
		j.Seq, j.TargetSeq = 8, 4
	default:
		j.Seq = 8
	}
	return j, c, j.Check() == nil
}

// balanced checks a prediction as somebody who adds up what it says.
func balanced(t *testing.T, res *predict.Result) {
	t.Helper()
	r := &res.Report
	var sum units.Bytes
	for category, b := range r.ByCategory {
		if b < 0 {
			t.Fatalf("%s takes %d bytes", category, b)
		}
		if category != "context" {
			sum += b
		}
	}
	if sum != r.Peak.Allocated || r.Peak.Reserved < r.Peak.Allocated || r.Safe < r.Peak.Reserved || r.Params < 0 || r.AfterLoad > r.Peak.Allocated {
		t.Fatalf("categories %d, %+v", sum, r)
	}
	if r.Fits != (r.Safe+r.ByCategory["context"] <= r.Capacity) {
		t.Fatalf("fits: %v, safe %d of %d", r.Fits, r.Safe, r.Capacity)
	}
	if err := hostile.CheckJSON(r); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	textout.Predict(screen.New(&out, screen.Style{Width: 80}), r)
	if err := hostile.CheckText(out.Bytes()); err != nil {
		t.Fatal(err)
	}
}

// deep tells models that take long to compute: slow, not wrong.
func deep(c *hfconfig.Config) bool {
	for _, name := range []string{"num_hidden_layers", "encoder_layers", "decoder_layers", "num_decoder_layers", "num_layers", "num_local_experts"} {
		if c.Has(name) && c.Int(name) > 16 {
			return true
		}
	}
	for _, n := range depths(c) {
		if n > 16 {
			return true
		}
	}
	return false
}

func depths(c *hfconfig.Config) []int {
	if !c.Has("depths") {
		return nil
	}
	return c.Ints("depths")
}
