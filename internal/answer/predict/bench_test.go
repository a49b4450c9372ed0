package predict

import (
	"os"
	"testing"
	"time"

	"github.com/plimsoll/plimsoll/internal/model/exported"
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

// BenchmarkWithCard tells how many times as long as a prediction the search for the largest batches on a card takes.
func BenchmarkWithCard(b *testing.B) {
	data, err := os.ReadFile("../../model/exported/testdata/resnet50.json.gz")
	if err != nil {
		b.Fatal(err)
	}
	g, err := exported.Parse(data)
	if err != nil {
		b.Fatal(err)
	}
	j := job.Job{Source: "graph", Graph: "resnet50", Loss: "cross-entropy", Batch: 32, Optimizer: "sgdm"}
	if err := j.Check(); err != nil {
		b.Fatal(err)
	}
	m, src := h200(b), Source{Graph: g}
	var alone, search time.Duration
	for b.Loop() {
		begun := time.Now()
		done, err := Run(j, src, m)
		if err != nil {
			b.Fatal(err)
		}
		ran := time.Now()
		Largest(j, src, m, done)
		alone, search = alone+ran.Sub(begun), search+time.Since(ran)
	}
	b.ReportMetric(search.Seconds()/alone.Seconds(), "search/prediction")
}
