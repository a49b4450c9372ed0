package modelcode

import (
	"os"
	"testing"

	"github.com/plimsoll/plimsoll/internal/model/job"
	"github.com/plimsoll/plimsoll/internal/script/probe/probetest"
)

func TestAModelIsReadFromTheInstalledTransformers(t *testing.T) {
	t.Parallel()
	r := &Reader{Python: probetest.Python(t), Cache: t.TempDir(), Env: os.Environ()}
	config := []byte(`{"model_type":"olmo2","hidden_size":64,"num_hidden_layers":2,"num_attention_heads":4,"intermediate_size":128,"vocab_size":500}`)
	g, err := r.Graph(job.Job{Batch: 2, Seq: 32}, config)
	if err != nil {
		t.Fatal(err)
	}
	if g.Trace == nil || g.Trace.Class != "Olmo2ForCausalLM" || g.Trace.Task != "causal-lm" || !g.Trace.Fits(true, false) || len(g.Trace.Checkpoints) != 2 {
		t.Errorf("%+v", g.Trace)
	}
	other := []byte(`{"model_type":"olmo2","hidden_size":32,"num_hidden_layers":2,"num_attention_heads":4,"intermediate_size":128,"vocab_size":500}`)
	if _, err := r.Graph(job.Job{Batch: 2}, other); !Asks(err) || err.Error() != `seq is missing: set --seq ("seq" in a job file)` {
		t.Errorf("without a length: %v", err)
	}
	if _, err := r.Graph(job.Job{Batch: 1, Seq: 8}, []byte(`{"model_type":"no_such_model"}`)); err == nil {
		t.Error("a model_type that transformers does not have was read")
	}
}
