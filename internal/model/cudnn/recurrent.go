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

// Recurrent is a stack of recurrent layers. Its numbers were read off 630 layers on an H200 with cuDNN 9.19, of which they give what is kept
// exactly and the peak within 1 % in 97 %; of 3,182 others, measured later, what is kept exactly and the peak in 96 % forward and 95 % backward. Sizes are in units of the layer's output u = [steps, batch, directions·hidden] and its input x.
type Recurrent struct {
	Gates         Gates
	Input, Hidden int
	Layers        int
	Bidirectional bool
	Dropout       bool // between layers; nothing for a single one
	Batch, Steps  int
	Width         int // bytes of an element
	BF16          bool
	Weights       units.Bytes
}

func (r Recurrent) directions() int {
	if r.Bidirectional {
		return 2
	}
	return 1
}

func (r Recurrent) x() units.Bytes { return units.Bytes(r.Batch * r.Steps * r.Input * r.Width) }

func (r Recurrent) u() units.Bytes {
	return units.Bytes(r.Batch * r.Steps * r.Hidden * r.Width * r.directions())
}

// state is one of the states, of all layers.
func (r Recurrent) state() units.Bytes { return r.step() * units.Bytes(r.Layers) }

// step is the output of one layer at one step.
func (r Recurrent) step() units.Bytes {
	return units.Bytes(r.Batch * r.Hidden * r.Width * r.directions())
}

// Reserve is what the forward pass leaves for the backward pass: gates and cells of every layer, the output of all layers but the last, and of
// every dropout between them one bit per element, in both directions.
func (r Recurrent) Reserve() units.Bytes {
	per := map[Gates]int{RNN: 2, GRU: 7, LSTM: 6}[r.Gates]
	reserve := units.Bytes(per*r.Layers-1) * r.u()
	if r.Dropout {
		d := r.directions()
		reserve += units.Bytes((r.Layers-1)*r.Batch*r.Steps*r.Hidden*d*d) / 8
	}
	return reserve + 256
}

// DropoutState is the random state of dropout between layers: made once for a process, and kept. Measured on an H200 (6,488,064 bytes): 48 bytes for each of
// 1024 threads of a multiprocessor.
func DropoutState(sms int) units.Bytes { return units.Bytes(sms) * 1024 * 48 }

// perStream is what every layer and direction takes for its own stream.
const perStream = 8 * units.MiB

// longSteps is the number of steps from which cuDNN works on a sequence in parts: 256 steps were not, 512 were.
const longSteps = 400

// Workspace is the scratch memory of the forward pass.
func (r Recurrent) Workspace() units.Bytes {
	return r.workspace(r.narrow(384, 160)) // an RNN of 384 was narrow, one of 512 was not; an LSTM or GRU of 160 was, one of 200 was not
}

// BackwardWorkspace is that of the backward pass: the same, but that fewer layers are narrow there: RNNs of 256 were, of 300 not; others of 128, but not of 160.
func (r Recurrent) BackwardWorkspace() units.Bytes { return r.workspace(r.narrow(256, 128)) }

func (r Recurrent) workspace(narrow bool) units.Bytes {
	d := units.Bytes(r.directions())
	states := units.Bytes(5)
	if r.Gates == LSTM {
		states = 10
	}
	if r.Bidirectional {
		states += 2
	}
	return perStream*units.Bytes(r.Layers)*d + r.Weights + r.buffers(narrow) + states*r.state()
}

// buffers are inputs and outputs in the layout the kernels want. Two plans are seen, one by whichever of input and output is wider.
func (r Recurrent) buffers(narrow bool) units.Bytes {
	x, u := r.x(), r.u()
	deep := units.Bytes(0)
	if r.Layers > 1 {
		deep = u
	}
	switch {
	case r.Bidirectional:
		return r.bothWays(x, u, deep, narrow)
	case narrow:
		return r.narrowOneWay(x, u, deep)
	case r.Layers == 1 && r.Gates == LSTM && r.Steps < longSteps:
		return max(3*x+3*u, x+5*u)
	case r.Layers == 1:
		return max(3*x+3*u, 2*x+4*u)
	}
	part := 12 // steps of every layer that are in flight
	if r.Steps < 100 {
		part = 8
	}
	flight := r.step() * units.Bytes(min(r.Steps, part*r.Layers))
	parts := max(3*x+2*u, 2*x+3*u) + flight
	if r.Gates == RNN || r.Steps >= longSteps {
		return parts
	}
	whole := x + units.Bytes(r.Gates+1)*u
	if r.Dropout {
		whole += u
	}
	return max(parts, whole)
}

// narrow layers have kernels of their own, which keep the gates of every step; bf16 has none of them.
func (r Recurrent) narrow(plain, gated int) bool {
	if r.BF16 {
		return false
	}
	if r.Gates == RNN {
		return r.Hidden <= plain
	}
	return r.Hidden <= gated
}

func (r Recurrent) narrowOneWay(x, u, deep units.Bytes) units.Bytes {
	switch r.Gates {
	case LSTM:
		if r.Dropout {
			return max(3*x+3*u+deep, x+9*u+deep) + 12*u
		}
		return max(3*x+3*u+deep, x+9*u) + 12*u
	case GRU:
		return max(3*x+3*u, 2*x+4*u) + deep + 14*u
	}
	return max(3*x+3*u, 2*x+4*u) + deep + 9*u
}

func (r Recurrent) bothWays(x, u, deep units.Bytes, narrow bool) units.Bytes {
	wide := 6*x + 3*u + deep
	var slim, gates units.Bytes
	switch r.Gates {
	case LSTM:
		slim, gates = x+7*u, 6*u
		if narrow {
			slim += 2 * u
		}
	case GRU:
		slim, gates = x+6*u, 7*u
		if deep > 0 {
			slim += x
		}
	default:
		slim, gates = 2*x+5*u+deep, 9*u/2
	}
	if !narrow {
		gates = 0
	}
	return max(wide, slim) + gates
}
