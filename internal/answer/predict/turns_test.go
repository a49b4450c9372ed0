package predict

import (
	"reflect"
	"testing"

	"github.com/plimsoll/plimsoll/internal/memory/course"
	"github.com/plimsoll/plimsoll/internal/memory/tape"
	"github.com/plimsoll/plimsoll/internal/model/hfconfig"
	"github.com/plimsoll/plimsoll/internal/model/job"
)

// TestTurnsOfAPatternAreThoseOfTheirTape compares turns whose sizes alone were taken from a short run with those cut from the whole tape.
func TestTurnsOfAPatternAreThoseOfTheirTape(t *testing.T) {
	t.Parallel()
	whole := Stretch{Micro: 1, Pick: func(_ *tape.Tape, steps []int) (from, to int, err error) { return steps[2], steps[3], nil }}
	last := Stretch{Micro: 3, Name: 3, Pick: func(t *tape.Tape, steps []int) (from, to int, err error) {
		return course.Forwards(t, steps[2], steps[3])[2], steps[3], nil
	}}
	const llama = `{"model_type":"llama","hidden_size":256,"intermediate_size":704,"num_hidden_layers":9,"num_attention_heads":8,"num_key_value_heads":2,"vocab_size":1000}`
	const bert = `{"model_type":"bert","hidden_size":256,"intermediate_size":1024,"num_hidden_layers":7,"num_attention_heads":4,"vocab_size":1000,"max_position_embeddings":512}`
	const t5 = `{"model_type":"t5","d_model":128,"d_ff":256,"d_kv":32,"num_layers":5,"num_heads":4,"vocab_size":1000,"tie_word_embeddings":true}`
	for name, c := range map[string]struct {
		config string
		at     Stretch
		change func(*job.Job)
	}{
		"llama":        {llama, whole, func(*job.Job) {}},
		"last of 3":    {llama, last, func(*job.Job) {}},
		"autocast":     {llama, whole, func(j *job.Job) { j.ParamDType, j.Autocast = "fp32", "bf16" }},
		"adapters":     {llama, whole, func(j *job.Job) { j.LoRARank = 8 }},
		"checkpointed": {llama, whole, func(j *job.Job) { j.Checkpointing, j.Layers = true, 5 }},
		"sgd":          {bert, whole, func(j *job.Job) { j.Optimizer, j.Task = "sgd", "masked-lm" }},
		"t5":           {t5, whole, func(j *job.Job) { j.Task, j.TargetSeq = "seq2seq-lm", 12 }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			config, err := hfconfig.Parse([]byte(c.config))
			if err != nil {
				t.Fatal(err)
			}
			j := job.Job{Source: "hf", Config: []byte(c.config), Task: "causal-lm", Batch: 4, Seq: 8, ParamDType: "bf16"}
			c.change(&j)
			if err := j.Check(); err != nil {
				t.Fatal(err)
			}
			s := NewShapes(j, Source{Config: config}, h200(t))
			for _, sh := range []Shape{{4, 64, 0, true}, {4, 65, 0, true}, {4, 64, 0, false}, {3, 300, 0, true}, {1, 17, 0, false}, {1, 8, 0, false}, {4, 511, 0, true}} {
				sh.Target = j.TargetSeq
				got, err := s.Turn(sh, c.at)
				if err != nil {
					t.Fatal(err)
				}
				want, err := s.slowTurn(sh, c.at)
				if err != nil {
					t.Fatal(err)
				}
				if !reflect.DeepEqual(got, want) {
					t.Errorf("%+v: the turn differs from that of its tape", sh)
				}
			}
			t.Logf("%d patterns", len(s.known.all))
			if n := len(s.known.all); name != "t5" && (n == 0 || n > 4) {
				t.Errorf("%d patterns for seven shapes", n)
			}
		})
	}
}
