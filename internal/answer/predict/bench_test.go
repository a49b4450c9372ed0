package predict

import (
	"testing"

	"github.com/plimsoll/plimsoll/internal/model/hfconfig"
	"github.com/plimsoll/plimsoll/internal/model/job"
)

func BenchmarkSmallLlama(b *testing.B) {
	c, err := hfconfig.Parse([]byte(`{"model_type":"llama","hidden_size":64,"intermediate_size":64,"num_hidden_layers":2,"num_attention_heads":2,"vocab_size":100}`))
	if err != nil {
		b.Fatal(err)
	}
	j := job.Job{Source: "hf", Config: []byte("{}"), Task: "causal-lm", Batch: 1, Seq: 8}
	if err := j.Check(); err != nil {
		b.Fatal(err)
	}
	m := h200(b)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Run(j, Source{Config: c}, m); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkAllRows(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		predicted(b)
	}
}
