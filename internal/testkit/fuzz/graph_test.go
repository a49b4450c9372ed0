package fuzz

import (
	"fmt"
	"testing"

	"github.com/plimsoll/plimsoll/internal/answer/predict"
	"github.com/plimsoll/plimsoll/internal/gpu"
	"github.com/plimsoll/plimsoll/internal/model/exported"
	"github.com/plimsoll/plimsoll/internal/model/job"
	"github.com/plimsoll/plimsoll/internal/testkit/hostile"
)

// graph is a graph of one operator between a linear layer and a sum.
func graph(target, more string) *hostile.Document {
	value := func(sizes, strides string) string {
		return fmt.Sprintf(`{"dtype":7,"requires_grad":true,"sizes":[%s],"strides":[%s]}`, sizes, strides)
	}
	batch, square := value(`{"as_expr":{"expr_str":"s0"}},{"as_int":4}`, `{"as_int":4},{"as_int":1}`), value(`{"as_int":4},{"as_int":4}`, `{"as_int":4},{"as_int":1}`)
	tensor := func(name, of string) string {
		return fmt.Sprintf(`{"name":%q,"arg":{"as_tensor":{"name":%q}}}`, name, of)
	}
	node := func(target, inputs, output string) string {
		return fmt.Sprintf(`{"target":"torch.ops.aten.%s","inputs":[%s],"outputs":[{"as_tensor":{"name":%q}}],"metadata":{}}`, target, inputs, output)
	}
	return hostile.New([]byte(`{"graph_module":{"graph":{"inputs":[{"as_tensor":{"name":"w"}},{"as_tensor":{"name":"x"}}],"outputs":[{"as_tensor":{"name":"loss"}}],"nodes":[` +
		node("linear.default", tensor("input", "x")+","+tensor("weight", "w"), "h") + "," + node(target, tensor("self", "h")+more, "y") + "," + node("sum.default", tensor("self", "y"), "loss") +
		`],"tensor_values":{"w":` + square + `,"x":` + batch + `,"h":` + batch + `,"y":` + batch + `,"loss":` + value("", "") + `}},` +
		`"signature":{"input_specs":[{"parameter":{"arg":{"name":"w"},"parameter_name":"fc.weight"}},{"user_input":{"arg":{"as_tensor":{"name":"x"}}}}],"output_specs":[]}}}`))
}

// predictingGraphs predicts graphs that nearly make sense.
func predictingGraphs(f fuzzer) {
	bases := []*hostile.Document{
		graph("gelu.default", ""), graph("softmax.int", `,{"name":"dim","arg":{"as_int":1}}`), graph("expand.default", `,{"name":"size","arg":{"as_ints":[4,4]}}`),
		graph("transpose.int", `,{"name":"dim0","arg":{"as_int":0}},{"name":"dim1","arg":{"as_int":1}}`), graph("slice.Tensor", `,{"name":"dim","arg":{"as_int":1}},{"name":"end","arg":{"as_int":2}}`),
		graph("sum.dim_IntList", `,{"name":"dim","arg":{"as_ints":[1]}},{"name":"keepdim","arg":{"as_bool":true}}`), graph("view.default", `,{"name":"size","arg":{"as_ints":[2,2,-1]}}`),
	}
	card, err := gpu.Find("h200")
	if err != nil {
		f.Fatal(err)
	}
	hostile.Seed(f, uint8(0))
	for i := range bases {
		f.Add([]byte{}, uint8(i))
	}
	f.Fuzz(func(t *testing.T, choices []byte, which uint8) {
		g, err := exported.Parse(bases[int(which)%len(bases)].JSON(hostile.FromBytes(choices)))
		if err != nil || len(g.Nodes) > 100 {
			return
		}
		j := job.Job{Source: "graph", Graph: "g", Batch: 2, Optimizer: "adamw"}
		if err := j.Check(); err != nil {
			t.Fatal(err)
		}
		res, err := predict.Run(j, predict.Source{Graph: g}, predict.Machine{Card: card})
		if err == nil {
			balanced(t, res)
		} else if hostile.CheckText([]byte(err.Error())) != nil {
			t.Fatalf("%q", err)
		}
	})
}
