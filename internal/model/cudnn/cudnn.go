// Package cudnn tells what memory cuDNN takes beside the operands of a convolution or a recurrent layer.
//
// It takes a card, the shapes of one call, its data type and memory format and returns the bytes of its workspace, the least the call runs in,
// and how sure that is. Convolutions are answered from measurements of the same compute capability (Table); a card without measurements
// gets both ends and no guess between them. Recurrent layers follow formulas that were read off the measurements.
// Nothing is refused: a shape no measurement resembles is answered with a low certainty.
package cudnn

import "github.com/plimsoll/plimsoll/internal/units"

// Need is the memory one call asks for beside its operands.
type Need struct {
	Takes units.Bytes // on a card with room: the workspace of the plan that cuDNN's heuristic puts first
	// Least is what the call runs in. Where a plan's workspace is refused PyTorch clears the error and tries the next plan
	// (https://github.com/pytorch/pytorch/blob/v2.11.0/aten/src/ATen/native/cudnn/Conv_v8.cpp, try_plans).
	Least     units.Bytes
	Low, High units.Bytes // what the measured neighbours allow; both are Takes where they agree
	Bound     units.Bytes // what no plan is known to exceed that cuDNN names first
	Sure      float64     // share of the neighbours that agree with Takes; 0: nothing was measured
	Tried     bool        // it is the first call of a shape with benchmark = True
}

// Pass is one of the three kernels of a convolution.
type Pass uint8

// The passes of a convolution.
const (
	Forward Pass = iota
	InputGrad
	WeightGrad
	passes
)

// Mode is how a plan of cuDNN's is chosen.
type Mode uint8

// The modes of a call.
const (
	Heuristic Mode = iota // the plan cuDNN names first: torch.backends.cudnn.benchmark is False, the default
	Trial                 // the first call of a shape with benchmark = True, which runs every plan and needs the workspace of the largest
	Chosen                // a later call with benchmark = True: the plan that was fastest
	modes
)

// Conv is a convolution without transposition. A transposed one is the same kernels in other roles: Swap gives them.
type Conv struct {
	N, C, H, W            int // input
	K, P, Q               int // output: channels, rows, columns
	R, S                  int // kernel
	Depth, KernelDepth    int // of three dimensions: how much of H and of R is depth; 0 otherwise
	Stride, Pad, Dilation int // of the columns
	Groups, Width         int // Width: bytes of an element
	BF16, Last            bool
	Transposed            bool // the call was conv_transpose: its forward pass is InputGrad here
}

// Sized gives a convolution the sizes of its input and output, batch and channels first, and of its kernel. One of a single dimension runs as one of two with
// one row (view1d_as_2d, https://github.com/pytorch/pytorch/blob/v2.11.0/aten/src/ATen/native/Convolution.cpp); of three, depth and rows count as one.
func (c Conv) Sized(in, out, kernel []int) Conv {
	c.N, c.C, c.K = in[0], in[1], out[1]
	c.H, c.W = fold(in[2:])
	c.P, c.Q = fold(out[2:])
	c.R, c.S = fold(kernel)
	if len(kernel) == 3 {
		c.Depth, c.KernelDepth = in[2], kernel[0]
	}
	return c
}

func fold(sizes []int) (rows, cols int) {
	rows = 1
	for _, n := range sizes[:len(sizes)-1] {
		rows *= n
	}
	return rows, sizes[len(sizes)-1]
}

// Role is the pass of the convolution a call's pass runs: conv_transpose computes its output as an input gradient.
func (c Conv) Role(p Pass) Pass {
	if !c.Transposed || p == WeightGrad {
		return p
	}
	return InputGrad - p
}

// channels are the input channels one output sees.
func (c Conv) channels() int { return c.C / max(1, c.Groups) }

func (c Conv) valid() bool {
	for _, n := range []int{c.N, c.C, c.H, c.W, c.K, c.P, c.Q, c.R, c.S, c.Groups, c.Width} {
		if n < 1 {
			return false
		}
	}
	return c.C%c.Groups == 0 && c.K%c.Groups == 0
}
