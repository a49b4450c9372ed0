package cost

import (
	"math"

	"github.com/plimsoll/plimsoll/internal/model/eager"
)

// Passes over memory reach the bandwidth: elementwise kernels, copies and casts of every type do (kernels: 4.2 to 4.4 TB/s). Those below do not.

// shares of the bandwidth. Kernels. A softmax's backward counts its inputs twice; the second time they are mostly in the cache.
var shares = map[string]float64{
	"aten::_softmax": 0.78, "aten::_log_softmax": 0.78, "SoftmaxBackward0": 1.15, "LogSoftmaxBackward0": 1.15,
	"NativeLayerNormBackward0": 0.8,
}

// instructions of passes that compute more than they move: operations of the fp32 peak for every element written. Kernels.
var instructions = map[string]float64{
	"aten::native_layer_norm": 87, "aten::native_dropout": 40, "aten::gelu": 23, "GeluBackward0": 23,
	"aten::max_pool2d_with_indices": 615, "MaxPool2DWithIndicesBackward0": 635, "aten::avg_pool2d": 490, "AvgPool2DBackward0": 1120,
}

// paces are operations of the fp32 peak for each element of elementwise kernels that move one at a time, whatever its type: 2.5, 2.85 and 3.9 ps. Kernels.
var paces = [...]float64{eager.Strided: 167, eager.Widened: 190, eager.Mixed: 261}

// A sum takes some time before its bytes count (few blocks, a second kernel), and some for each element that goes into a result, one after the other. Kernels.
const (
	sumStart = 6e-6
	sumEach  = 1.2e-9
	sumMost  = 1 << 15 // more are shared out
)

// pass is the time of kernels that pass over memory.
func (r Rates) pass(w eager.Work) float64 {
	share, ok := shares[w.Op]
	if !ok {
		share = 1
	}
	t := float64(w.Read+w.Written) / (r.Bandwidth * share)
	t = max(t, paces[w.Pace]*float64(w.Written/w.Result.Width())/r.FP32) + float64(w.Kernels)*launch
	if n := instructions[w.Op]; n > 0 {
		t += n * float64(w.Written/w.Result.Width()) / r.FP32
	}
	switch w.Op {
	case "aten::sum":
		t += sumStart + sumEach*min(sumMost, float64(w.Read)/max(1, float64(w.Written)))
	case "GammaBetaBackward":
		t = max(t, r.parameterGrads(w))
	}
	return t
}

// parameterGrads is the gradient of a layer norm's weight and bias: one block for 32 columns, whatever the rows (LaunchGammaBetaBackwardCUDAKernel of
// aten/src/ATen/native/cuda/layer_norm_kernel.cu, 2.11, but for more than 64 Ki rows of few columns). Kernels: 6.4 G elements/s a block.
func (r Rates) parameterGrads(w eager.Work) float64 {
	const instructions = 79 // of a multiprocessor's fp32 rate, for each element
	elements, width := float64(w.Read/2/w.DType.Width()), float64(w.Shape[0])
	blocks := min(math.Ceil(width/32), r.SMs)
	if elements/width > 64*1024 && width/32 < r.SMs/2 {
		return 0
	}
	return elements*instructions/(blocks*r.FP32/r.SMs) + launch
}

// Batch norm in NCHW runs one block a channel, so that few channels leave the card idle. In operations of a multiprocessor's fp32 rate for each element. Kernels.
const (
	// cuDNN's kernels, fp32: alone on a multiprocessor, and where two share one.
	normForward, normForwardShared   = 270, 460
	normBackward, normBackwardShared = 704, 920
	// PyTorch's own, 16 bits (cuDNN's are refused for bfloat16: aten/src/ATen/native/Normalization.cpp): four share one, and no more come before all are done.
	normForward16, normBackward16 = 405, 872
	normResident16, normCrowd16   = 4, 0.25 // and how much slower four are than one
	normThreads16                 = 512     // of a block, fewer for smaller images (getNumThreads of aten/src/ATen/native/cuda/Normalization.cuh)
	// The transformation that follows them in forward, of the whole card's rate; images smaller than normSpace leave threads idle.
	normApply, normSpace = 136, 300
)

// batchNorm is bound by its bytes or, in NCHW, by what a block a channel can do.
func (r Rates) batchNorm(w eager.Work) float64 {
	channels, elements, space := float64(w.Shape[0]), float64(w.Shape[1]), float64(w.Shape[2])
	bytes := float64(w.Read+w.Written)/r.Bandwidth + float64(w.Kernels)*launch
	if space == 0 || channels == 0 { // channels_last
		return bytes
	}
	back := w.Phase == eager.PhaseBackward
	block := elements / channels / (r.FP32 / r.SMs)
	if !w.DType.Half() {
		return max(bytes, block*cudnnNorm(back, channels > r.SMs)*max(1, channels/(2*r.SMs))+launch)
	}
	slots := normResident16 * r.SMs
	waves := math.Ceil(channels/slots) * (1 + normCrowd16*min(1, channels/slots)) / threadsUsed(space)
	if back {
		return max(bytes, block*waves*normBackward16+launch)
	}
	apply := elements * normApply * max(1, normSpace/space) / r.FP32
	return max(bytes, block*waves*normForward16+apply+2*launch)
}

// threadsUsed is the part of a block's threads that have an element of an image to work on.
func threadsUsed(space float64) float64 {
	threads := min(normThreads16, max(32, math.Exp2(math.Ceil(math.Log2(space)))))
	return space / (math.Ceil(space/threads) * threads)
}

func cudnnNorm(back, shared bool) float64 {
	switch {
	case back && shared:
		return normBackwardShared
	case back:
		return normBackward
	case shared:
		return normForwardShared
	}
	return normForward
}
