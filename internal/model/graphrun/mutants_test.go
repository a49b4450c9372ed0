package graphrun

import (
	"testing"

	"github.com/plimsoll/plimsoll/internal/memory/tape"
	"github.com/plimsoll/plimsoll/internal/model/exported"
	"github.com/plimsoll/plimsoll/internal/model/job"
	"github.com/plimsoll/plimsoll/internal/testkit/hostile"
	"github.com/plimsoll/plimsoll/internal/testkit/measured"
)

// FuzzMutants runs graphs that nearly make sense: what runs gives back no more than it took.
func FuzzMutants(f *testing.F) {
	bases := []*hostile.Document{
		hostile.New(program("torch.ops.aten.gelu.default", selfArg)),
		hostile.New(program("torch.ops.aten.softmax.int", selfArg+`,{"name":"dim","arg":{"as_int":1}}`)),
		hostile.New(program("torch.ops.aten.expand.default", selfArg+`,{"name":"size","arg":{"as_ints":[4,4]}}`)),
		hostile.New(program("torch.ops.aten.transpose.int", selfArg+`,{"name":"dim0","arg":{"as_int":0}},{"name":"dim1","arg":{"as_int":1}}`)),
	}
	hostile.Seed(f, uint8(0))
	f.Fuzz(func(t *testing.T, choices []byte, which uint8) {
		g, err := exported.Parse(bases[int(which)%len(bases)].JSON(hostile.FromBytes(choices)))
		if err != nil || len(g.Nodes) > 100 {
			return
		}
		run, _, err := trainGraph(g, measured.Row{Job: job.Job{Batch: 2, Optimizer: "sgd", ParamDType: "fp32"}})
		if err != nil {
			if hostile.CheckText([]byte(err.Error())) != nil {
				t.Fatalf("%q", err)
			}
			return
		}
		var held int64
		for _, e := range run.Events {
			switch e.Kind {
			case tape.Alloc:
				held += int64(e.Size)
			case tape.Free:
				held -= int64(e.Size)
			}
			if held < 0 || e.Size < 0 {
				t.Fatalf("%d bytes held after %+v", held, e)
			}
		}
	})
}
