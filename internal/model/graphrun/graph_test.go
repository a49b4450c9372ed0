package graphrun

import (
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/plimsoll/plimsoll/internal/memory/tape"
	"github.com/plimsoll/plimsoll/internal/model/eager"
	"github.com/plimsoll/plimsoll/internal/model/exported"
	"github.com/plimsoll/plimsoll/internal/model/families"
	"github.com/plimsoll/plimsoll/internal/model/hfconfig"
	"github.com/plimsoll/plimsoll/internal/model/job"
	"github.com/plimsoll/plimsoll/internal/testkit/measured"
	"github.com/plimsoll/plimsoll/internal/units"
)

// readGraph reads one of the exported graphs that package exported keeps.
func readGraph(t testing.TB, name string) *exported.Graph {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("..", "exported", "testdata", name+".json.gz"))
	if err != nil {
		t.Fatal(err)
	}
	g, err := exported.Parse(data)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// trainGraph computes the tape of a graph row.
func trainGraph(g *exported.Graph, r measured.Row) (*tape.Tape, *Graph, error) {
	b, err := g.Bind(func(exported.Symbol) (int64, error) { return int64(r.Batch), nil })
	if err != nil {
		return nil, nil, err
	}
	p := eager.NewProcess(eager.H200())
	m, err := New(p, b, Spec{DType: measured.DTypes[r.ParamDType], Loss: r.Loss, LossOutput: r.LossOutput, ChannelsLast: r.ChannelsLast})
	if err != nil {
		return nil, nil, err
	}
	err = p.Train(m, trainOptions(r))
	return p.Tape(), m, err
}

func trainOptions(r measured.Row) eager.Options {
	o := eager.Options{Optimizer: r.Optimizer, Accumulate: r.Accumulate, Plain: r.Loop == "plain", Freeze: r.Freeze, ChannelsLast: r.ChannelsLast}
	if r.Autocast != "" {
		o.Autocast = measured.DTypes[r.Autocast]
		o.Scaler = r.Autocast == "fp16"
	}
	return o
}

func TestGraphPeaksAgreeWithMeasuredOnes(t *testing.T) {
	t.Parallel()
	only := os.Getenv("PLIMSOLL_ROWS")
	errors := map[string][]float64{}
	var all []float64
	for _, r := range measured.Rows(t, filepath.Join("..", "families", "testdata", "memory.jsonl.gz")) {
		if r.Source != "graph" || (only != "" && !strings.Contains(r.ID, only)) {
			continue
		}
		tp, m, err := trainGraph(readGraph(t, r.Model), r)
		if err != nil {
			t.Errorf("%s: %v", r.ID, err)
			continue
		}
		if u := m.Unknown(); len(u) > 0 {
			t.Errorf("%s: unknown operators %v", r.ID, u)
		}
		got, stats, err := measured.Peaks(tp)
		if err != nil {
			t.Errorf("%s: %v", r.ID, err)
			continue
		}
		e := measured.Percent(stats.Peak.Allocated, r.Measured.PeakAllocated)
		errors[r.Model] = append(errors[r.Model], e)
		all = append(all, math.Abs(e))
		t.Logf("%-28s %+7.3f %% reserved %+6.2f %% cl=%v %s", r.ID, e, measured.Percent(stats.Peak.Reserved, r.Measured.PeakReserved), r.ChannelsLast, r)
		if only != "" {
			t.Log(r.PhaseTable(got))
		}
	}
	for _, model := range slices.Sorted(maps.Keys(errors)) {
		es := errors[model]
		slices.SortFunc(es, func(a, b float64) int { return int(math.Copysign(1, math.Abs(a)-math.Abs(b))) })
		t.Logf("%-20s rows %2d median %6.3f worst %+7.3f", model, len(es), math.Abs(es[len(es)/2]), es[len(es)-1])
	}
	if len(all) > 0 {
		slices.Sort(all)
		t.Logf("graphs: %d rows, median %.3f %%, p90 %.3f %%, worst %.3f %%", len(all), all[len(all)/2], all[len(all)*9/10], all[len(all)-1])
	}
}

// program is a graph of one operator on a parameter of shape [4, 4] and an input of shape [batch, 4], and a sum.
func program(target, args string) []byte {
	meta := func(sizes ...string) string {
		var strides []string
		for range sizes {
			strides = append(strides, `{"as_int":1}`)
		}
		return `{"dtype":7,"requires_grad":true,"sizes":[` + strings.Join(sizes, ",") + `],"strides":[` + strings.Join(strides, ",") + `]}`
	}
	batch, four := `{"as_expr":{"expr_str":"s0"}}`, `{"as_int":4}`
	return []byte(`{"graph_module":{"graph":{"inputs":[{"as_tensor":{"name":"w"}},{"as_tensor":{"name":"x"}}],"outputs":[{"as_tensor":{"name":"loss"}}],"nodes":[
{"target":"torch.ops.aten.linear.default","inputs":[{"name":"input","arg":{"as_tensor":{"name":"x"}}},{"name":"weight","arg":{"as_tensor":{"name":"w"}}}],"outputs":[{"as_tensor":{"name":"h"}}],"metadata":{}},
{"target":"` + target + `","inputs":[` + args + `],"outputs":[{"as_tensor":{"name":"y"}}],"metadata":{}},
{"target":"torch.ops.aten.sum.default","inputs":[{"name":"self","arg":{"as_tensor":{"name":"y"}}}],"outputs":[{"as_tensor":{"name":"loss"}}],"metadata":{}}],
"tensor_values":{"w":` + meta(four, four) + `,"x":` + meta(batch, four) + `,"h":` + meta(batch, four) + `,"y":` + meta(batch, four) + `,"loss":` + meta() + `}},
"signature":{"input_specs":[{"parameter":{"arg":{"name":"w"},"parameter_name":"fc.weight"}},{"user_input":{"arg":{"as_tensor":{"name":"x"}}}}],"output_specs":[]}}}`)
}

const selfArg = `{"name":"self","arg":{"as_tensor":{"name":"h"}}}`

// need is the peak of a step through one operator, on a batch whose tensors have 16 MiB, and what of it is not known.
func need(t *testing.T, target, args string) (units.Bytes, []string) {
	t.Helper()
	g, err := exported.Parse(program(target, args))
	if err != nil {
		t.Fatal(err)
	}
	tp, m, err := trainGraph(g, measured.Row{Job: job.Job{Batch: 1 << 20, Optimizer: "sgd", ParamDType: "fp32"}})
	if err != nil {
		t.Fatal(err)
	}
	_, stats, err := measured.Peaks(tp)
	if err != nil {
		t.Fatal(err)
	}
	return stats.Peak.Allocated, m.Unknown()
}

func TestAnUnknownOperatorIsNamedAndNotUnderrated(t *testing.T) {
	t.Parallel()
	known, none := need(t, "torch.ops.aten.gelu.default", selfArg)
	strange, named := need(t, "torch.ops.mylib.my_gelu.default", selfArg)
	if len(none) != 0 || len(named) != 1 || named[0] != "mylib.my_gelu.default" {
		t.Errorf("unknown operators %v and %v", none, named)
	}
	if strange < known {
		t.Errorf("an unknown operator needs %d bytes, gelu %d", strange, known)
	}
}

func TestAGraphWithArgumentsThatDoNotFitIsRefused(t *testing.T) {
	t.Parallel()
	for name, c := range map[string][2]string{
		"a dimension too far": {"torch.ops.aten.softmax.int", selfArg + `,{"name":"dim","arg":{"as_int":7}}`},
		"a missing weight":    {"torch.ops.aten.conv2d.default", selfArg},
		"no tensor":           {"torch.ops.aten.relu.default", `{"name":"self","arg":{"as_int":7}}`},
		"pieces":              {"torch.ops.aten.split.Tensor", selfArg + `,{"name":"split_size","arg":{"as_int":1}}`},
	} {
		g, err := exported.Parse(program(c[0], c[1]))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if _, _, err := trainGraph(g, measured.Row{Job: job.Job{Batch: 8, Optimizer: "sgd", ParamDType: "fp32"}}); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func FuzzGraph(f *testing.F) {
	f.Add(program("torch.ops.aten.gelu.default", selfArg))
	f.Add(program("torch.ops.aten.softmax.int", selfArg+`,{"name":"dim","arg":{"as_int":1}}`))
	f.Add(program("torch.ops.aten.slice.Tensor", selfArg+`,{"name":"dim","arg":{"as_int":1}},{"name":"end","arg":{"as_int":9223372036854775807}}`))
	f.Add(program("torch.ops.aten.expand.default", selfArg+`,{"name":"size","arg":{"as_ints":[4,4]}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		g, err := exported.Parse(data)
		if err != nil || len(g.Nodes) > 100 {
			return
		}
		// Errors are fine; crashes are not.
		_, _, _ = trainGraph(g, measured.Row{Job: job.Job{Batch: 2, Optimizer: "sgd", ParamDType: "fp32"}})
	})
}

// TestTheSameModelByConfigAndByGraphAgrees runs every job whose model is there both ways; the graphs have a fixed sequence length, so only
// jobs of that length count, and a graph contains its attention.
func TestTheSameModelByConfigAndByGraphAgrees(t *testing.T) {
	t.Parallel()
	compared := 0
	for _, r := range measured.Rows(t, filepath.Join("..", "families", "testdata", "memory.jsonl.gz")) {
		path := filepath.Join("..", "exported", "testdata", r.Model+".json.gz")
		if _, err := os.Stat(path); r.Source != "hf" || r.Checkpointing || r.Attn == "eager" || err != nil {
			continue
		}
		if _, err := hfconfig.Parse(r.Config); err != nil {
			continue
		}
		g := readGraph(t, r.Model)
		if !lengthIs(t, g, r.Seq) {
			continue
		}
		fromGraph, m, err := trainGraph(g, r)
		if err != nil {
			t.Errorf("%s: %v", r.ID, err)
			continue
		}
		fromConfig, err := trainConfig(r)
		if err != nil {
			t.Errorf("%s: %v", r.ID, err)
			continue
		}
		_, a, errA := measured.Peaks(fromGraph)
		_, b, errB := measured.Peaks(fromConfig)
		if errA != nil || errB != nil {
			t.Fatal(errA, errB)
		}
		if e := measured.Percent(a.Peak.Allocated, b.Peak.Allocated); math.Abs(e) > 0.5 || len(m.Unknown()) > 0 {
			t.Errorf("%s: the graph needs %+.3f %% of the configuration's bytes more; unknown operators %v", r.ID, e, m.Unknown())
		}
		compared++
	}
	if compared < 10 {
		t.Errorf("only %d jobs were compared", compared)
	}
}

// lengthIs tells whether a graph was exported for a sequence length; graphs of images have none.
func lengthIs(t *testing.T, g *exported.Graph, seq int) bool {
	t.Helper()
	b, err := g.Bind(func(exported.Symbol) (int64, error) { return 2, nil })
	if err != nil {
		t.Fatal(err)
	}
	for _, at := range g.Inputs {
		if v := &g.Values[at]; v.Role == exported.UserInput && seq > 0 && len(v.Sizes) == 2 && b.Dims(v.Sizes)[1] != seq {
			return false
		}
	}
	return true
}

// trainConfig computes the tape of a row from its configuration.
func trainConfig(r measured.Row) (*tape.Tape, error) {
	c, err := hfconfig.Parse(r.Config)
	if err != nil {
		return nil, err
	}
	p := eager.NewProcess(eager.H200())
	m, err := families.New(p, c, families.Spec{
		Task: r.Task, Batch: r.Batch, Seq: r.Seq, TargetSeq: r.TargetSeq, Image: r.Image, Frames: r.Frames,
		DType: measured.DTypes[r.ParamDType], Attn: string(r.Attn),
	})
	if err != nil {
		return nil, err
	}
	err = p.Train(m, trainOptions(r))
	return p.Tape(), err
}
