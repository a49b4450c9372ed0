package predict

import (
	"reflect"
	"testing"

	"github.com/plimsoll/plimsoll/internal/model/exported"
	"github.com/plimsoll/plimsoll/internal/model/job"
)

// TestModelsReadFromTheirCodeAreWrittenFromAFewLayers compares tapes that were written from eight layers or fewer with those of the whole model, event by event.
func TestModelsReadFromTheirCodeAreWrittenFromAFewLayers(t *testing.T) {
	t.Parallel()
	for file, depth := range map[string]int{"nemotron-8b": 32, "glm4-9b": 40} {
		g := tracedGraph(t, file+".json.gz")
		if g.Depth() != depth {
			t.Fatalf("%s: %d layers that are alike", file, g.Depth())
		}
		for _, j := range []job.Job{
			{Batch: 2, Seq: 512},
			{Batch: 3, Seq: 100, Checkpointing: true, Optimizer: "adafactor"},
			{Batch: 1, Seq: 100, Checkpointing: true, Layers: 9, Optimizer: "sgdm"},
			{Batch: 2, Seq: 64, Accumulate: 2, Loop: "plain", Optimizer: "adamw-8bit"},
		} {
			j.Source, j.Task, j.Config, j.ParamDType = "hf", g.Trace.Task, []byte(`{}`), "bf16"
			if err := j.Check(); err != nil {
				t.Fatal(err)
			}
			src, m := Source{Graph: g}, h200(t)
			got, err := NewVariants(src, m).written(j, alikeLayers(src, j))
			if err != nil {
				t.Errorf("%s, batch %d: %v", file, j.Batch, err)
				continue
			}
			p, model, conv, err := train(j, src, m, 0)
			if err != nil {
				t.Fatal(err)
			}
			if err := sameTape(got.tape, p.Tape()); err != nil {
				t.Errorf("%s, batch %d: %v", file, j.Batch, err)
			}
			a, b := count(got.model.Root())
			if c, d := count(model.Root()); a != c || b != d || conv != got.conv {
				t.Errorf("%s, batch %d: %d parameters, %d trained; %d and %d of the whole model", file, j.Batch, a, b, c, d)
			}
		}
	}
}

func TestAPackedModelIsTheModel(t *testing.T) {
	t.Parallel()
	want := tracedGraph(t, "nemotron-8b.json.gz")
	packed, err := exported.Pack(want)
	if err != nil {
		t.Fatal(err)
	}
	got, err := exported.Unpack(packed)
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("another graph comes back (%v)", err)
	}
}
