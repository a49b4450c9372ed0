package graphrun

import (
	"github.com/plimsoll/plimsoll/internal/model/eager"
	"github.com/plimsoll/plimsoll/internal/model/tensor"
)

// cell is one step of a recurrent layer (nn.GRUCell, nn.LSTMCell): on a GPU two products without bias, and one kernel for all gates, which keeps a workspace for
// backward: five values of each unit of a GRU, the four gates of an LSTM
// (https://github.com/pytorch/pytorch/blob/v2.11.0/aten/src/ATen/native/RNN.cpp, GRUCell and LSTMCell;
// https://github.com/pytorch/pytorch/blob/v2.11.0/aten/src/ATen/native/cuda/RNN.cu, GRU_WORKSPACE_MULTIPLIER).
type cell struct {
	op        string
	workspace int  // values that it keeps of each unit
	two       bool // has a state of its own beside the hidden one, which is kept, too
}

var (
	gruCell  = cell{op: "aten::_thnn_fused_gru_cell", workspace: 5}
	lstmCell = cell{op: "aten::_thnn_fused_lstm_cell", workspace: 4, two: true}
)

func (c cell) run(o *graphOp) []*eager.Tensor {
	states := o.list("hx")
	if len(states) == 0 || o.arg("w_ih") == nil || o.arg("w_hh") == nil {
		return o.conservative()
	}
	hidden, state := states[0], states[len(states)-1]
	inputs := []*eager.Tensor{eager.Linear(o.self(), o.arg("w_ih"), nil), eager.Linear(hidden, o.arg("w_hh"), nil), state}
	for _, name := range []string{"b_ih", "b_hh"} {
		if b := o.arg(name); b != nil {
			inputs = append(inputs, b)
		}
	}
	layouts, keeps := []tensor.Layout{tensor.Of(state.Sizes...)}, []bool{false}
	if c.two {
		layouts, keeps = append(layouts, layouts[0]), append(keeps, true)
	}
	layouts, keeps = append(layouts, tensor.Of(state.Sizes[0], c.workspace*state.Dim(-1))), append(keeps, true)
	types := make([]tensor.DType, len(layouts))
	for i := range types {
		types[i] = state.DType
	}
	made := o.p.Formula(eager.Formula{Op: c.op, Inputs: inputs, Saved: inputs, Layouts: layouts, Types: types, Keeps: keeps})
	last := len(made) - 1
	made[last].Release()
	return made[:last]
}

// list are the tensors of an argument: one, or those of a list.
func (o *graphOp) list(name string) (out []*eager.Tensor) {
	a, _ := o.node.Arg(name)
	for _, v := range a.Values {
		if v >= 0 && o.vals[v] != nil {
			out = append(out, o.vals[v])
		}
	}
	return out
}
