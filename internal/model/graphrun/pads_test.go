package graphrun

import (
	"strings"
	"testing"

	"github.com/plimsoll/plimsoll/internal/model/exported"
	"github.com/plimsoll/plimsoll/internal/model/job"
	"github.com/plimsoll/plimsoll/internal/testkit/measured"
	"github.com/plimsoll/plimsoll/internal/units"
)

// A linear layer's result of 16 MiB is padded to three times its width. Nothing but the padding may keep that result until the backward pass: padding with a
// constant does not; reflection and repetition keep it for their formula, so that the peak is higher by just that.
func TestPaddingWithTheEdgeKeepsItsInput(t *testing.T) {
	t.Parallel()
	constant := paddedPeak(t, "constant")
	for _, mode := range []string{"reflect", "replicate"} {
		if more := paddedPeak(t, mode) - constant; more != 16*units.MiB {
			t.Errorf("%s: %d bytes more than a constant", mode, more)
		}
	}
}

func paddedPeak(t *testing.T, mode string) units.Bytes {
	args := `{"name":"self","arg":{"as_tensor":{"name":"h"}}},{"name":"pad","arg":{"as_ints":[4,4]}},{"name":"mode","arg":{"as_string":"` + mode + `"}}`
	g, err := exported.Parse(padded(program("torch.ops.aten.pad.default", args)))
	if err != nil {
		t.Fatal(err)
	}
	tp, m, err := trainGraph(g, measured.Row{Job: job.Job{Batch: 1 << 20, Optimizer: "sgd", ParamDType: "fp32"}})
	if err != nil || len(m.Unknown()) > 0 {
		t.Fatal(m.Unknown(), err)
	}
	_, stats, err := measured.Peaks(tp)
	if err != nil {
		t.Fatal(err)
	}
	return stats.Peak.Allocated
}

// padded lets the result y be three times as wide as h, puts relu behind it, and says when the results die.
func padded(program []byte) []byte {
	wide := `{"dtype":7,"requires_grad":true,"sizes":[{"as_expr":{"expr_str":"s0"}},{"as_int":12}],"strides":[{"as_int":1},{"as_int":1}]}`
	text := string(program)
	for _, change := range [][2]string{
		{`"y":{"dtype":7,"requires_grad":true,"sizes":[{"as_expr":{"expr_str":"s0"}},{"as_int":4}],"strides":[{"as_int":1},{"as_int":1}]}`, `"y":` + wide + `,"z":` + wide},
		{`"outputs":[{"as_tensor":{"name":"y"}}],"metadata":{}},`, `"outputs":[{"as_tensor":{"name":"y"}}],"metadata":{"plimsoll_dies":"h"}},
{"target":"torch.ops.aten.relu.default","inputs":[{"name":"self","arg":{"as_tensor":{"name":"y"}}}],"outputs":[{"as_tensor":{"name":"z"}}],"metadata":{"plimsoll_dies":"y"}},`},
		{`"inputs":[{"name":"self","arg":{"as_tensor":{"name":"y"}}}],"outputs":[{"as_tensor":{"name":"loss"}}],"metadata":{}`, `"inputs":[{"name":"self","arg":{"as_tensor":{"name":"z"}}}],"outputs":[{"as_tensor":{"name":"loss"}}],"metadata":{"plimsoll_dies":"z"}`},
	} {
		text = strings.Replace(text, change[0], change[1], 1)
	}
	return []byte(text)
}
