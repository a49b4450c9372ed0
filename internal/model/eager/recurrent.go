package eager

import (
	"github.com/plimsoll/plimsoll/internal/model/tensor"
	"github.com/plimsoll/plimsoll/internal/units"
)

// Recurrent holds the arguments of an LSTM or GRU beside its tensors.
type Recurrent struct {
	Gates         int // 4: LSTM, 3: GRU
	Layers        int
	Bidirectional bool
	BatchFirst    bool
}

// RNN is nn.LSTM or nn.GRU through cuDNN (_cudnn_rnn): it saves input, states, weights, output and a reserve that cuDNN fills in forward.
// Measured with cuDNN 9.19, in units of one [steps, batch, hidden] tensor: an LSTM of two layers reserves 11 and works on 7.4, a GRU of one
// layer reserves 6 and works on 5.5. Autocast runs it in 16 bit and packs the cast weights into one buffer.
func RNN(x *Tensor, states, weights []*Tensor, a Recurrent) []*Tensor {
	p := x.p
	in := p.lower(x)
	var packed *Tensor
	if in != x {
		n := 0
		for _, w := range weights {
			n += w.Numel()
		}
		packed = p.emptyOf(in.DType, n)
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
	hidden := weights[1].Dim(1) // weight_hh is [gates·hidden, hidden]
	batch := in.Dim(1)
	if a.BatchFirst {
		batch = in.Dim(0)
	}
	out := p.emptyOf(in.DType, in.Dim(0), in.Dim(1), directions*hidden)
	outs := []*Tensor{out}
	for range states {
		outs = append(outs, p.emptyOf(in.DType, a.Layers*directions, batch, hidden))
	}
	unit := units.Bytes(in.Dim(0)*in.Dim(1)*hidden*directions) * in.DType.Width()
	reserve := p.empty(tensor.Of(int(unit/in.DType.Width())*a.reserves()), in.DType)
	p.scratch(a.workspace(unit))
	n.save(out, reserve)
	for _, o := range outs {
		n.out(o)
	}
	gates := func(times int) {
		p.multiply(p.op, in.DType, 8, times*a.Layers*directions, in.Dim(0)*in.Dim(1), a.Gates*hidden, in.Dim(-1)+hidden)
	}
	gates(1)
	n.backward(func([]*Tensor) []*Tensor {
		gates(2)
		grads := make([]*Tensor, 1+len(weights))
		for i, t := range append([]*Tensor{in}, weights...) {
			if n.needs(i) {
				grads[i] = p.emptyOf(t.DType, t.Sizes...)
			}
		}
		p.scratch(a.workspace(unit))
		return grads
	})
	drop(reserve, packed, in, x)
	drop(states...)
	return outs
}

// reserves counts what each layer keeps: an LSTM its four gates, the cell and, but for the last layer, the output; a GRU six.
func (a Recurrent) reserves() int {
	if a.Gates == 4 {
		return 6*a.Layers - 1
	}
	return 6 * a.Layers
}

func (a Recurrent) workspace(unit units.Bytes) units.Bytes {
	if a.Gates == 4 {
		return unit * 74 / 10
	}
	return unit * 55 / 10
}
