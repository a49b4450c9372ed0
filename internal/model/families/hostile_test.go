package families

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/plimsoll/plimsoll/internal/model/eager"
	"github.com/plimsoll/plimsoll/internal/model/hfconfig"
	"github.com/plimsoll/plimsoll/internal/model/tensor"
)

// Every number of a configuration is replaced by others: the answer is a prediction or an error, never a crash.
func TestOddSizesAreRefusedOrComputed(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, c := range hostCases(t) {
		if seen[c.Name] {
			continue
		}
		seen[c.Name] = true
		var fields map[string]any
		if err := json.Unmarshal(c.Config, &fields); err != nil {
			t.Fatal(err)
		}
		for name, value := range fields {
			switch value.(type) {
			case float64:
				for _, odd := range []int{0, 1, 3, 100} {
					attempt(t, c, fields, name, odd)
				}
			case []any:
				for _, odd := range [][]int{{}, {1}, {0, 0, 0, 0}, {3, 3, 3, 3}, {1, 2, 3, 4, 5, 6}} {
					attempt(t, c, fields, name, odd)
				}
			}
		}
	}
}

func attempt(t *testing.T, c hostCase, fields map[string]any, name string, odd any) {
	t.Helper()
	was := fields[name]
	fields[name] = odd
	text, err := json.Marshal(fields)
	fields[name] = was
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if r := recover(); r != nil {
			t.Errorf("%s %s with %s = %v crashes: %v", c.Name, c.Task, name, odd, fmt.Sprint(r))
		}
	}()
	cfg, err := hfconfig.Parse(text)
	if err != nil {
		return
	}
	p := eager.NewProcess(eager.H200())
	m, err := New(p, cfg, Spec{Task: c.Task, Batch: 2, Seq: 16, TargetSeq: c.TargetSeq, Image: c.Image, DType: tensor.Float32})
	if err != nil {
		return
	}
	_ = p.Train(m, eager.Options{Optimizer: "sgd", Steps: 1})
}

func TestTextsLongerThanTheLearnedPositionsAreRefused(t *testing.T) {
	t.Parallel()
	for config, longest := range map[string]int{
		`{"model_type":"gpt2","n_layer":1}`:                                            1024,
		`{"model_type":"bert","num_hidden_layers":1}`:                                  512,
		`{"model_type":"bart","encoder_layers":1,"decoder_layers":1}`:                  1024,
		`{"model_type":"roberta","num_hidden_layers":1,"max_position_embeddings":514}`: 512,
	} {
		c, err := hfconfig.Parse([]byte(config))
		if err != nil {
			t.Fatal(err)
		}
		task := "masked-lm"
		switch c.Type {
		case "gpt2":
			task = "causal-lm"
		case "bart":
			task = "seq2seq-lm"
		}
		for seq, want := range map[int]bool{longest: true, longest + 1: false} {
			_, err := New(eager.NewProcess(eager.H200()), c, Spec{Task: task, Batch: 1, Seq: seq, TargetSeq: 8, DType: tensor.Float32})
			if (err == nil) != want {
				t.Errorf("%s with %d tokens: error %v", c.Type, seq, err)
			}
		}
	}
}

func TestImagesAndTargetsOfNoSizeAreRefused(t *testing.T) {
	t.Parallel()
	for kind, s := range map[string]Spec{
		"vit":     {Task: "image-cls", Batch: 1},
		"deit":    {Task: "image-cls", Batch: 1, Image: 256}, // position embeddings are for 224
		"swin":    {Task: "image-cls", Batch: 1},
		"t5":      {Task: "seq2seq-lm", Batch: 1, Seq: 8},
		"bart":    {Task: "causal-lm", Batch: 1, Seq: 8, TargetSeq: 8},
		"whisper": {Task: "speech-seq2seq", Batch: 1, TargetSeq: 8, Frames: 100},
	} {
		c, err := hfconfig.Parse([]byte(`{"model_type":"` + kind + `"}`))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := New(eager.NewProcess(eager.H200()), c, s); err == nil {
			t.Errorf("%s takes %+v", kind, s)
		}
	}
}
