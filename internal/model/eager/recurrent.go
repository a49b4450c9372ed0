package eager

import (
	"github.com/plimsoll/plimsoll/internal/model/cudnn"
	"github.com/plimsoll/plimsoll/internal/model/tensor"
	"github.com/plimsoll/plimsoll/internal/units"
)

// Recurrent holds the arguments of an LSTM, GRU or RNN beside its tensors.
type Recurrent struct {
	Gates         cudnn.Gates
	Layers        int
	Bidirectional bool
	BatchFirst    bool
	Dropout       bool
	Inference     bool // the module is in eval mode
}

// describe is the layer for cuDNN. weight_hh is [gates·hidden, hidden], or [gates·hidden, projected].
func (a Recurrent) describe(in *Tensor, weights []*Tensor) cudnn.Recurrent {
	r := cudnn.Recurrent{
		Gates: a.Gates, Input: in.Dim(2), Hidden: weights[1].Dim(0) / int(a.Gates), Layers: max(a.Layers, 1), Bidirectional: a.Bidirectional, Dropout: a.Dropout,
		Steps: in.Dim(0), Batch: in.Dim(1), Inference: a.Inference, Width: int(in.DType.Width()), BF16: in.DType == tensor.BFloat16,
	}
	if out := weights[1].Dim(1); out < r.Hidden {
		r.Projected = out
	}
	if a.BatchFirst {
		r.Steps, r.Batch = r.Batch, r.Steps
	}
	for _, w := range weights {
		r.Weights += units.Bytes(w.Numel()) * in.DType.Width()
	}
	return r
}

// RNN is nn.LSTM, nn.GRU or nn.RNN through cuDNN (_cudnn_rnn): it saves input, states, weights, output and a reserve that cuDNN fills in forward.
// Weights are one buffer where flatten_parameters has made them one. Autocast's casts are packed into another
// (https://github.com/pytorch/pytorch/blob/v2.11.0/aten/src/ATen/native/cudnn/RNN.cpp, _cudnn_rnn_cast_reflatten), and so is a model in bfloat16, which
// flatten_parameters passes over (torch/backends/cudnn/__init__.py, CUDNN_TENSOR_DTYPES): the buffer is made in every forward pass and saved.
// The input of batch_first is copied to [steps, batch, features], in forward and again in backward.
func RNN(x *Tensor, states, weights []*Tensor, a Recurrent) []*Tensor {
	p := x.p
	in := p.lower(x)
	layer := a.describe(in, weights)
	var packed *Tensor
	if in != x || layer.BF16 {
		packed = p.emptyOf(in.DType, int(layer.Weights/in.DType.Width()))
	}
	if layer.Dropout && layer.Layers > 1 && !p.dropout {
		p.dropout = true
		p.keepWorkspace("cudnn dropout state", cudnn.DropoutState(p.Device.SMs))
	}
	p.op = "aten::_cudnn_rnn"
	n := p.record("CudnnRnnBackward0", append([]*Tensor{in}, weights...)...)
	n.save(in, packed)
	n.save(states...)
	if packed == nil {
		n.save(weights...)
	}
	directions := 1
	if a.Bidirectional {
		directions = 2
	}
	ordered := a.ordered(p, in)
	out := p.emptyOf(in.DType, in.Dim(0), in.Dim(1), directions*weights[1].Dim(1))
	outs := []*Tensor{out}
	for i := range states {
		size := layer.Hidden
		if i == 0 {
			size = weights[1].Dim(1) // the hidden state is projected, the cell is not
		}
		outs = append(outs, p.emptyOf(in.DType, layer.Layers*directions, layer.Batch, size))
	}
	var reserve *Tensor
	if size := layer.Reserve(); size > 0 {
		reserve = p.empty(tensor.Of(int(size/in.DType.Width())), in.DType)
	}
	p.scratch(layer.Workspace())
	n.save(out, reserve)
	drop(ordered)
	for _, o := range outs {
		n.out(o)
	}
	gates := func(times int) {
		p.multiply(p.op, in.DType, 8, times*layer.Layers*directions, in.Dim(0)*in.Dim(1), int(a.Gates)*layer.Hidden, in.Dim(-1)+layer.Hidden)
	}
	gates(1)
	n.backward(func([]*Tensor) []*Tensor {
		gates(2)
		return p.recurrentGrads(n, in, weights, outs[1:], a, layer)
	})
	drop(reserve, packed, in, x)
	drop(states...)
	return outs
}

// ordered is the input in the order cuDNN wants; nil where it is.
func (a Recurrent) ordered(p *Process, in *Tensor) *Tensor {
	if !a.BatchFirst {
		return nil
	}
	return p.emptyOf(in.DType, in.Dim(1), in.Dim(0), in.Dim(2))
}

// recurrentGrads is _cudnn_rnn_backward: gradients of the last states, where none came, and of the first are made beside those of input and weights.
func (p *Process) recurrentGrads(n *Node, in *Tensor, weights, last []*Tensor, a Recurrent, layer cudnn.Recurrent) []*Tensor {
	ordered := a.ordered(p, in)
	var states []*Tensor
	for _, s := range last {
		states = append(states, p.emptyOf(s.DType, s.Sizes...), p.emptyOf(s.DType, s.Sizes...))
	}
	grads := make([]*Tensor, 1+len(weights))
	for i, t := range append([]*Tensor{in}, weights...) {
		if i == 0 || n.needs(i) {
			grads[i] = p.emptyOf(t.DType, t.Sizes...)
		}
	}
	p.scratch(layer.BackwardWorkspace())
	drop(ordered)
	drop(states...)
	if !n.needs(0) {
		drop(grads[0])
		grads[0] = nil
	}
	return grads
}
