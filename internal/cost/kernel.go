package cost

import (
	"math"

	"github.com/plimsoll/plimsoll/internal/eager"
)

// Constants of kernels. Each is a property of kernels and libraries, expressed so that another card's rates can stand in.
const (
	// launch is the card's own time between kernels. Assumed: usual for back-to-back kernels; mild effect.
	launch = 2.5e-6
	// passShare is the part of the bandwidth that elementwise kernels, copies, softmax, norms and reductions reach. Assumed, kept
	// by the measured rows: one value does as well as one for each.
	passShare = 0.87
	// halfFactor slows passes whose result is in 16 bits. Measured: the foreach optimizer shows the same ratio alone.
	halfFactor = 0.85
	// productShare of a 16-bit or TF32 peak. Measured, joint with prologue: steps bound by products; an 8192³ product alone reaches 0.80.
	productShare = 0.76
	// productShare32 of the fp32 peak without tensor cores. Measured: fp32 steps of llama-1b and vit-large agree.
	productShare32 = 0.74
	// prologue is what a tile costs beyond its arithmetic. Joint.
	prologue = 2e-6
	// productBytes is the part of the bandwidth a product reaches that waits for memory. Assumed.
	productBytes = 0.9
	// Shares of peak of fused 16-bit attention, by head size. Assumed: near what is published for Hopper, consistent with llama-1b.
	attention64, attention64Back   = 0.40, 0.30
	attention128, attention128Back = 0.50, 0.40
	// attention32 is efficient attention's share of the fp32 peak (30 TFLOP/s on an H200). Assumed; at most 6 % of any measured row.
	attention32 = 0.45
	// Convolutions: share of peak and of the bandwidth, and of the bandwidth when layouts are copied. Joint, resnet50.
	convolutionShare, convolutionBytes, layoutShare = 0.45, 0.85, 0.6
	// Batch norm's statistics in NCHW run one block a channel (aten/src/ATen/native/cuda/Normalization.cuh), at most two on a multiprocessor:
	// elements a second and block. Joint, resnet50.
	normBytes                    = 0.75
	normElements, normElements16 = 3.1e9, 2.1e9
)

// kernel is the time of an entry's kernels.
func (r Rates) kernel(w eager.Work) float64 {
	switch w.Kind {
	case eager.Product:
		return r.product(w)
	case eager.Fused:
		return r.attention(w)
	case eager.Convolved:
		return r.convolution(w)
	case eager.Normalised:
		return r.batchNorm(w)
	case eager.ToHost, eager.FromHost: // pinned memory: the link's rate
		return float64(w.Read)/r.Link + launch
	}
	share := passShare
	if w.Result.Half() {
		share *= halfFactor
	}
	return float64(w.Read+w.Written)/(r.Bandwidth*share) + float64(w.Kernels)*launch
}

// tile is one shape of output block a library has a kernel for, and the part of the rate it reaches.
type tile struct {
	rows, cols float64
	share      float64
}

// Tiles. Assumed from the kernels cuBLAS is known to have; narrow ones suit attention's products.
var (
	tensorTiles = []tile{{128, 256, 1}, {128, 128, 0.92}, {128, 64, 0.75}}
	scalarTiles = []tile{{128, 128, 1}, {128, 64, 0.88}}
)

// product is the fastest of the tiles and splits a library may choose: whole waves of tiles over the multiprocessors.
func (r Rates) product(w eager.Work) float64 {
	batch, rows, cols, inner := float64(w.Shape[0]), float64(w.Shape[1]), float64(w.Shape[2]), float64(w.Shape[3])
	tiles, rate, start := tensorTiles, r.matrix(w.DType)*productShare, prologue
	if !w.DType.Half() && !r.TF32On {
		tiles, rate, start = scalarTiles, r.FP32*productShare32, 0
	}
	bytes := float64(w.Read + w.Written)
	best := math.Inf(1)
	for _, t := range tiles {
		count := batch * min(math.Ceil(rows/t.rows)*math.Ceil(cols/t.cols), math.Ceil(rows/t.cols)*math.Ceil(cols/t.rows))
		for split := 1.0; split <= 8 && (split == 1 || inner/split >= 512); split *= 2 {
			waves := math.Ceil(count * split / r.SMs)
			one := 2*t.rows*t.cols*(inner/split)/(rate*t.share/r.SMs) + start
			extra := 0.0
			if split > 1 { // partial sums in fp32, written and read
				extra = 2 * split * batch * rows * cols * 4
			}
			best = min(best, max(waves*one, (bytes+extra)/(r.Bandwidth*productBytes)))
		}
	}
	return best*misaligned(w) + launch
}

// misaligned slows 16-bit products whose leading dimensions are no multiple of eight: kernels load fewer elements at once. Assumed; no measured row has one.
func misaligned(w eager.Work) float64 {
	if !w.DType.Half() {
		return 1
	}
	slow := 1.0
	for _, n := range w.Shape[2:] {
		switch {
		case n%2 != 0:
			slow = max(slow, 3)
		case n%4 != 0:
			slow = max(slow, 2)
		case n%8 != 0:
			slow = max(slow, 1.5)
		}
	}
	return slow
}

// attention is a fused kernel: arithmetic of whole 128 × 128 blocks, never faster than its bytes.
func (r Rates) attention(w eager.Work) float64 {
	heads, rows, cols, dim := float64(w.Shape[0]), float64(w.Shape[1]), float64(w.Shape[2]), float64(w.Shape[3])
	back := w.Phase == eager.PhaseBackward
	flops, rate, start := w.FLOPs, r.FP32*attention32, 0.0
	if w.DType.Half() {
		padded := math.Ceil(rows/128) * 128 * math.Ceil(cols/128) * 128
		flops *= padded / max(1, rows*cols)
		share, shareBack := attention64, attention64Back
		if dim > 64 {
			share, shareBack = attention128, attention128Back
		}
		if back {
			share = shareBack
		}
		rate, start = r.Half*share, prologue
	}
	waves := math.Ceil(heads * math.Ceil(rows/128) / r.SMs)
	return max(flops/rate+waves*start, float64(w.Read+w.Written)/(r.Bandwidth*passShare)) + float64(w.Kernels)*launch
}

// convolution computes in tensor cores, fp32 in TF32 (torch.backends.cudnn.allow_tf32 is on by default), on copies in channels_last.
func (r Rates) convolution(w eager.Work) float64 {
	peak := r.TF32
	if w.DType.Half() {
		peak = r.Half
	}
	work := max(w.FLOPs/(peak*convolutionShare), float64(w.Read+w.Written)/(r.Bandwidth*convolutionBytes))
	return work + 2*float64(w.Layout)/(r.Bandwidth*layoutShare) + float64(w.Kernels)*launch
}

// batchNorm is bound by its bytes or, where channels are few, by what a block a channel can do.
func (r Rates) batchNorm(w eager.Work) float64 {
	elements, channels := float64(w.Shape[1]), float64(w.Shape[0])
	passes := 3.0
	if w.Phase == eager.PhaseBackward {
		passes = 5
	}
	each := normElements
	if w.DType.Half() {
		each = normElements16
	}
	return max(float64(w.Read+w.Written)/(r.Bandwidth*normBytes), passes*elements/(min(channels, 2*r.SMs)*each)) + 2*launch
}
