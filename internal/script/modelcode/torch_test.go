package modelcode

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/plimsoll/plimsoll/internal/model/exported"
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

// withPackages is a Python that has small packages in place of timm and diffusers.
func withPackages(t *testing.T) *Reader {
	t.Helper()
	packages, err := filepath.Abs(filepath.Join("testdata", "packages"))
	if err != nil {
		t.Fatal(err)
	}
	return &Reader{Python: probetest.Python(t), Cache: t.TempDir(), Env: append(os.Environ(), "PYTHONPATH="+packages)}
}

func TestAModelOfTimmIsReadFromItsCode(t *testing.T) {
	t.Parallel()
	r := withPackages(t)
	g, err := r.Graph(job.Job{Batch: 2}, []byte(`{"architecture":"timm/smallnet.tag","num_classes":5}`))
	if err != nil {
		t.Fatal(err)
	}
	if tr := g.Trace; tr.Class != "Net" || tr.Library() != "timm 1.0" || tr.Task != "image-cls" || !tr.Fits(false, false) || !slices.Equal(tr.Checkpoints, []string{"blocks.0", "blocks.1", "blocks.2"}) {
		t.Errorf("%+v", tr)
	}
	if n := parameters(g); n != 3*8*9+8+3*(8*8*9+8)+8*5+5 {
		t.Errorf("%d parameters", n)
	}
	if _, err := r.Graph(job.Job{Batch: 2}, []byte(`{"architecture":"smalnet"}`)); err == nil || !strings.Contains(err.Error(), "timm 1.0 has no model 'smalnet'; did you mean smallnet") || strings.Contains(err.Error(), "Refused") {
		t.Errorf("a typo: %v", err)
	}
}

func TestAModelOfDiffusersIsReadFromItsCode(t *testing.T) {
	t.Parallel()
	r := withPackages(t)
	g, err := r.Graph(job.Job{Batch: 2, Image: 64}, []byte(`{"_class_name":"SmallUNetModel","_diffusers_version":"0.1","in_channels":4}`))
	if err != nil {
		t.Fatal(err)
	}
	notes := strings.Join(g.Trace.Notes, "\n")
	if tr := g.Trace; tr.Class != "SmallUNetModel" || tr.Library() != "diffusers 0.1" || tr.Task != "denoising" || !tr.Fits(false, false) || !strings.Contains(notes, "64 × 64 pixels (8 × 8 latents)") {
		t.Errorf("%+v", tr)
	}
	if !slices.Equal(g.Trace.Frozen, []string{"prompt.weight", "prompt.bias"}) {
		t.Errorf("what the model does not train: %v", g.Trace.Frozen)
	}
	if n := parameters(g); n != 4*8*9+8+24*8+8+8*8*9+8 {
		t.Errorf("%d parameters", n)
	}
	if _, err := r.Graph(job.Job{Batch: 2}, []byte(`{"_class_name":"SmallUnetModel"}`)); err == nil || !strings.Contains(err.Error(), "did you mean SmallUNetModel") {
		t.Errorf("a typo: %v", err)
	}
}

// parameters counts those of a graph.
func parameters(g *exported.Graph) int64 {
	var n int64
	b, err := g.Bind(func(exported.Symbol) (int64, error) { return 2, nil })
	if err != nil {
		return 0
	}
	for i := range b.Values {
		if v := &b.Values[i]; v.Role == exported.Parameter {
			size := int64(1)
			for _, d := range b.Dims(v.Sizes) {
				size *= int64(d)
			}
			n += size
		}
	}
	return n
}
