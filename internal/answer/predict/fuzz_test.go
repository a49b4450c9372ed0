package predict

import (
	"testing"

	"github.com/plimsoll/plimsoll/internal/gpu"
	"github.com/plimsoll/plimsoll/internal/model/hfconfig"
	"github.com/plimsoll/plimsoll/internal/model/job"
)

// FuzzConfig runs whatever configuration parses: errors are fine, crashes are not.
func FuzzConfig(f *testing.F) {
	for _, name := range hfconfig.Supported() {
		f.Add([]byte(`{"model_type":"` + name + `","hidden_size":64,"num_hidden_layers":1,"n_layer":1,"n_embd":64,"n_head":4,"num_attention_heads":4,"intermediate_size":64,"vocab_size":100,"d_model":64,"depths":[1,1],"image_size":32,"layer_types":null}`))
	}
	card, err := gpu.Find("h200")
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := hfconfig.Parse(data)
		if err != nil {
			return
		}
		for _, name := range []string{"num_hidden_layers", "encoder_layers", "decoder_layers", "num_decoder_layers", "num_layers"} {
			if c.Has(name) && c.Int(name) > 16 {
				return // slow, not wrong
			}
		}
		j := job.Job{Source: "hf", Config: data, Task: c.Task(), Batch: 2, Optimizer: "sgd"}
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
		if j.Check() != nil {
			return
		}
		_, _ = Run(j, Source{Config: c}, Machine{Card: card})
	})
}
