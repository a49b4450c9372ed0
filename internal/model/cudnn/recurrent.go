package cudnn

import "github.com/plimsoll/plimsoll/internal/units"

// Gates is the number of gates of a recurrent cell, which tells the kinds apart.
type Gates int

// The recurrent layers of PyTorch.
const (
	RNN  Gates = 1
	GRU  Gates = 3
	LSTM Gates = 4
)

// Recurrent is a stack of recurrent layers. Its numbers were read off 9,532 layers on an H200 with cuDNN 9.19 (in training and inference, packed, projected): they
// give what is kept exactly and the peaks within 1 % in at least 98 % of each kind.
type Recurrent struct {
	Gates         Gates
	Input, Hidden int
	Projected     int // proj_size of an LSTM; 0: none
	Layers        int
	Bidirectional bool
	Dropout       bool // between layers; nothing for a single one
	Batch, Steps  int
	Rows          int  // of a packed sequence: the sum of its lengths; 0: not packed
	Inference     bool // the module is in eval mode: nothing is kept for a backward pass
	Width         int  // bytes of an element
	BF16          bool
	Weights       units.Bytes
}

func (r Recurrent) directions() int {
	if r.Bidirectional {
		return 2
	}
	return 1
}

func (r Recurrent) packed() bool { return r.Rows > 0 }

// bytes is the size of something that every step of every sequence has.
func (r Recurrent) bytes(features int) units.Bytes {
	rows := r.Batch * r.Steps
	if r.packed() {
		rows = r.Rows
	}
	return units.Bytes(rows * features * r.Width)
}

// x is the input.
func (r Recurrent) x() units.Bytes { return r.bytes(r.Input) }

// u is the hidden state of all steps of one layer.
func (r Recurrent) u() units.Bytes { return r.bytes(r.Hidden * r.directions()) }

// y is the output.
func (r Recurrent) y() units.Bytes { return r.bytes(r.out() * r.directions()) }

// out is the width of the output, in one direction.
func (r Recurrent) out() int {
	if r.Projected > 0 {
		return r.Projected
	}
	return r.Hidden
}

// step is the hidden state of one layer at one step.
func (r Recurrent) step() units.Bytes {
	return units.Bytes(r.Batch * r.Hidden * r.Width * r.directions())
}

// state is the hidden state of all layers at one step.
func (r Recurrent) state() units.Bytes { return r.step() * units.Bytes(r.Layers) }

// States is what is handed in at the first step, or out at the last: the hidden state, and the cell of an LSTM, which is not projected.
func (r Recurrent) States() units.Bytes {
	hidden := units.Bytes(r.Batch * r.out() * r.Layers * r.Width * r.directions())
	if r.Gates == LSTM {
		hidden += r.state()
	}
	return hidden
}

// Reserve is what the forward pass leaves for the backward pass: gates and cells of every layer, the output of all layers but the last, what is projected,
// and of every dropout between them one bit per element, in both directions and also beyond the ends of packed sequences.
func (r Recurrent) Reserve() units.Bytes {
	if r.Inference {
		return 0
	}
	layers := units.Bytes(r.Layers)
	reserve := (map[Gates]units.Bytes{RNN: 2, GRU: 7, LSTM: 6}[r.Gates]*layers - 1) * r.u()
	if r.Projected > 0 {
		reserve += layers * (r.u() + r.y())
	}
	if r.Dropout {
		d := r.directions()
		reserve += units.Bytes((r.Layers-1)*r.Batch*r.Steps*r.out()*d*d) / 8
	}
	return reserve + 256
}

// DropoutState is the random state of dropout between layers: made once for a process, and kept. Measured on an H200 (6,488,064 bytes): 48 bytes for each of
// 1024 threads of a multiprocessor.
func DropoutState(sms int) units.Bytes { return units.Bytes(sms) * 1024 * 48 }

// perStream is what every layer and direction takes for its own stream.
const perStream = 8 * units.MiB

// Workspace is the scratch memory of the forward pass.
func (r Recurrent) Workspace() units.Bytes {
	return r.workspace(r.narrow(384, 160)) // an RNN of 384 was narrow, one of 512 was not; an LSTM or GRU of 160 was, one of 200 was not
}

// BackwardWorkspace is that of the backward pass: the same, but that fewer layers are narrow there: RNNs of 256 were, of 300 not; others of 128, but not of 160.
func (r Recurrent) BackwardWorkspace() units.Bytes { return r.workspace(r.narrow(256, 128)) }

func (r Recurrent) workspace(narrow bool) units.Bytes {
	own := perStream*units.Bytes(r.Layers*r.directions()) + r.Weights
	switch {
	case narrow && r.Inference:
		return own + r.narrowInference()
	case narrow:
		return own + r.narrowTraining()
	case r.Inference:
		return own + r.allGates()
	}
	return own + max(r.allGates(), r.byLayer())
}

// partSteps is how many steps of gates are computed ahead, in one direction.
const partSteps = 256

// allGates is the plan that computes what the gates take from their input for many steps at once, and all that inference needs. Input, output and states that are not packed
// are copied into the order of packed ones.
func (r Recurrent) allGates() units.Bytes {
	u := r.u()
	size := units.Bytes(r.Gates) * min(u, partSteps*r.step())
	states := map[Gates]units.Bytes{RNN: 1, GRU: 3, LSTM: 6}[r.Gates]
	if r.Bidirectional {
		size, states = units.Bytes(r.Gates+2)*u, states+2
	} else if r.Dropout && !r.Inference {
		size += u
	}
	if r.Projected > 0 {
		size += u
	}
	if !r.packed() {
		size += r.x() + r.y() + 2*r.States()
	}
	return size + states*r.state()
}

// byLayer is the plan that runs some steps of a layer, then of the next. Here copies are made of gradients as well.
func (r Recurrent) byLayer() units.Bytes {
	x, u := r.x(), r.u()
	states := units.Bytes(1)
	if r.Gates == LSTM {
		states = 3
	}
	var size units.Bytes
	switch {
	case r.Bidirectional:
		size, states = u+max(4*x, 2*u), states+2
		if r.Layers > 1 {
			size += u
		}
	case r.Layers == 1:
		size = u + max(x, u)
	default:
		size = max(x, u) + r.step()*units.Bytes(min(r.Steps, 8+r.inFlight()*r.Layers))
	}
	if r.Projected > 0 {
		size += u
	}
	if !r.packed() {
		size += 2*(x+r.y()) + 4*r.States()
	}
	return size + states*r.state()
}

// inFlight is how many steps of every layer run before the next layer does: 8 in long sequences (100 steps or more were measured so, 70 not) and small batches.
func (r Recurrent) inFlight() int {
	switch {
	case r.Steps >= 100 || r.Batch <= 16:
		return 8
	case r.Batch <= 64:
		return 4
	}
	return 2
}

// narrow layers have kernels of their own, which keep the gates of every step; bf16, packed sequences and projections have none of them.
func (r Recurrent) narrow(plain, gated int) bool {
	switch {
	case r.BF16 || r.packed() || r.Projected > 0:
		return false
	case r.Gates == RNN:
		return r.Hidden <= plain
	}
	return r.Hidden <= gated
}

func (r Recurrent) narrowInference() units.Bytes {
	x, u, state := r.x(), r.u(), r.state()
	if r.Bidirectional {
		return x + map[Gates]units.Bytes{RNN: 6, GRU: 12, LSTM: 15}[r.Gates]*u + map[Gates]units.Bytes{RNN: 5, GRU: 5, LSTM: 9}[r.Gates]*state
	}
	return x + map[Gates]units.Bytes{RNN: 6, GRU: 16, LSTM: 21}[r.Gates]*u + map[Gates]units.Bytes{RNN: 4, GRU: 4, LSTM: 8}[r.Gates]*state
}

// deep is what a layer hands to the one above it; 0 where there is one layer.
func (r Recurrent) deep() units.Bytes {
	if r.Layers > 1 {
		return r.u()
	}
	return 0
}

func (r Recurrent) narrowTraining() units.Bytes {
	states := units.Bytes(5)
	if r.Gates == LSTM {
		states = 10
	}
	if r.Bidirectional {
		return r.narrowBothWays() + (states+2)*r.state()
	}
	x, u, deep := r.x(), r.u(), r.deep()
	wide := 3*x + 3*u + deep
	switch {
	case r.Gates == RNN:
		wide = max(wide, 2*x+4*u+deep) + 9*u
	case r.Gates == GRU:
		wide = max(wide, 2*x+4*u+deep) + 14*u
	case r.Dropout:
		wide = max(wide, x+9*u+deep) + 12*u
	default:
		wide = max(wide, x+9*u) + 12*u
	}
	return wide + states*r.state()
}

func (r Recurrent) narrowBothWays() units.Bytes {
	x, u, deep := r.x(), r.u(), r.deep()
	wide := 6*x + 3*u + deep
	switch {
	case r.Gates == LSTM:
		return max(wide, x+9*u) + 6*u
	case r.Gates == GRU && deep > 0:
		return max(wide, 2*x+6*u) + 7*u
	case r.Gates == GRU:
		return max(wide, x+6*u) + 7*u
	}
	return max(wide, 2*x+5*u+deep) + 9*u/2
}
