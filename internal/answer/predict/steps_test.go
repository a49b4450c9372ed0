package predict

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/plimsoll/plimsoll/internal/model/exported"
	"github.com/plimsoll/plimsoll/internal/model/job"
)

// TestTmpSteps compares everything once.
func TestTmpSteps(t *testing.T) {
	files, _ := filepath.Glob(os.Getenv("HOME") + "/.cache/plimsoll/models/*.json.gz")
	for _, f := range files {
		data, _ := os.ReadFile(f)
		g, err := exported.Parse(data)
		if err != nil || g.Trace == nil {
			continue
		}
		for _, j := range []job.Job{
			{Batch: 2, Seq: 512, ParamDType: "bf16"}, {Batch: 3, Seq: 100, ParamDType: "bf16", Checkpointing: true, Optimizer: "adafactor"},
			{Batch: 1, Seq: 100, ParamDType: "bf16", Checkpointing: true, Layers: 8, Optimizer: "sgdm"},
			{Batch: 2, Seq: 64, ParamDType: "bf16", Accumulate: 2, Loop: "plain", Optimizer: "adamw-8bit"}, {Batch: 2, Seq: 64, ParamDType: "bf16", LoRARank: 8},
		} {
			j.Source, j.Task = "hf", g.Trace.Task
			j.Config = []byte(`{"model_type":"x"}`)
			if err := j.Check(); err != nil {
				t.Log(err)
				continue
			}
			src := Source{Graph: g}
			v := NewVariants(src, h200(t))
			z := zones(src, j)
			got, err := v.written(j, z)
			if z == nil || err != nil {
				t.Log(filepath.Base(f), g.Trace.Class, g.Depth(), err)
				continue
			}
			p, model, conv, err := train(j, src, h200(t), 0)
			if err != nil {
				t.Error(err)
				continue
			}
			a, b := count(got.model.Root())
			c, d := count(model.Root())
			t.Log(g.Trace.Class, g.Depth(), z, sameTape(got.tape, p.Tape()), a == c, b == d, conv == got.conv)
		}
	}
}
