package cost

import (
	"math"

	"github.com/plimsoll/plimsoll/internal/model/eager"
)

// Constants of kernels. Each is a property of kernels and libraries, expressed so that another card's rates can stand in. "Kernels" names their source:
// the kernels of profiled steps of gpt2-medium, bert-large, vit-large, resnet50, efficientnet_b0 and densenet121 on an H200 (scripts/gpu/profile_steps.py; testdata/kernels.jsonl.gz).
const (
	// launch is what a kernel costs beyond its work, with the gap before the next one. Kernels: 1.3 µs over the bytes' time, 1 to 1.6 µs between two.
	launch = 2.5e-6
	// productShare of a 16-bit or TF32 peak. Kernels: 0.89 fits 60 shapes in short runs; an 8192³ product that runs on and on reaches 0.80, held back by the card's
	// power. Steps lie between.
	productShare = 0.83
	// productShare32 of the fp32 peak without tensor cores. Kernels: 47 to 53 TFLOP/s for all shapes.
	productShare32 = 0.755
	// prologue is what a tile costs beyond its arithmetic: why a product of inner size 1024 reaches less than one of 16384. Kernels.
	prologue = 2e-6
	// productBytes is the part of the bandwidth a product reaches that waits for memory. Assumed.
	productBytes = 0.9
	// Shares of peak of fused 16-bit attention, by head size. Assumed: near what is published for Hopper; with randomWork the kernels of head size 64 come out right.
	attention64, attention64Back   = 0.40, 0.30
	attention128, attention128Back = 0.50, 0.40
	// attention32 is efficient attention's share of the fp32 peak (30 TFLOP/s on an H200). Kernels: 19 to 30 with dropout.
	attention32 = 0.45
	// randomWork is what a random number of dropout inside attention costs, in operations of the fp32 peak: some fifteen integer instructions, of which a
	// multiprocessor has a quarter of the lanes. Kernels: 1 ps a score.
	randomWork = 64
	// Convolutions: share of peak and of the bandwidth, and of the bandwidth when layouts are copied. Joint, resnet50; kernels agree on the average.
	convolutionShare, convolutionBytes, layoutShare = 0.45, 0.85, 0.6
	// Tiles of a convolution's kernels are not filled where it has fewer channels than this; twice as many for the gradient of its weight. Kernels: densenet121's 32.
	narrowSide = 64.0
	// An image of so few channels uses little of a tensor core: some share of the fp32 peak, whatever the type, and operations of it for each element
	// that is copied to channels_last. Kernels: resnet50's 7 × 7 and vit-large's 16 × 16, 40 TFLOP/s; 15 ps.
	fewChannels, fewShare, fewCopies = 4, 0.6, 980
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
	return r.pass(w)
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
	return max(best, r.misaligned(w)) + launch
}

// misaligned is the time of a 16-bit product whose operands a kernel cannot load eight elements at a time: cuBLAS falls back to kernels of older cards.
// Kernels: products with 30522 columns run at 0.26 of the peak (align 2), with 50257 at 0.145 (align 1), 0.096 where it is the result that is so. Four at a time: assumed.
func (r Rates) misaligned(w eager.Work) float64 {
	if !w.DType.Half() {
		return 0
	}
	share := 0.0
	switch {
	case w.Align == 4:
		share = 0.5
	case w.Align == 2:
		share = 0.26
	case w.Align == 1 && w.Shape[2]%2 != 0 && w.Phase != eager.PhaseBackward:
		share = 0.096
	case w.Align == 1:
		share = 0.145
	default:
		return 0
	}
	return w.FLOPs / (r.Half * share)
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
	random := 0.0
	if w.Dropout {
		random = heads * rows * cols * randomWork / r.FP32
		if w.Causal {
			random /= 2
		}
	}
	return max(flops/rate+waves*start+random, float64(w.Read+w.Written)/r.Bandwidth) + float64(w.Kernels)*launch
}

// convolution computes in tensor cores, fp32 in TF32 (torch.backends.cudnn.allow_tf32 is on by default), on copies in channels_last.
func (r Rates) convolution(w eager.Work) float64 {
	if w.Taps > 0 {
		return r.depthwise(w)
	}
	peak := r.TF32
	if w.DType.Half() {
		peak = r.Half
	}
	narrow, channels, elements := max(1, float64(w.Shape[0])), w.Shape[1], float64(w.Shape[2])
	side := narrowSide
	if w.Op == "aten::convolution_backward.weight" {
		side *= 2
	}
	compute := w.FLOPs * max(1, side/narrow) / (peak * convolutionShare)
	copies := 2 * float64(w.Layout) / (r.Bandwidth * layoutShare)
	if channels <= fewChannels {
		compute = max(compute, w.FLOPs/(r.FP32*fewShare))
		if w.Layout > 0 {
			copies += elements * fewCopies / r.FP32
		}
	}
	return max(compute, float64(w.Read+w.Written)/(r.Bandwidth*convolutionBytes)) + copies + float64(w.Kernels)*launch
}

// depthwise is one of PyTorch's own kernels (aten/src/ATen/native/cuda/DepthwiseConv2d.cu), which computes indices for every element and tap, so that the type hardly
// matters. Operations of the fp32 peak. Kernels: forward 10 ps an output of 3 × 3 taps and 16 of 5 × 5; input 17 and 20 ps; weight 1.6 ps an output and tap.
func (r Rates) depthwise(w eager.Work) float64 {
	elements, taps := float64(w.Written/w.Result.Width()), float64(w.Taps)
	work := elements * (400 + 28*taps)
	switch w.Op {
	case "aten::convolution_backward.input":
		work = elements * (1040 + 11*taps)
	case "aten::convolution_backward.weight":
		work = w.FLOPs / 2 * 107
	}
	return work/r.FP32 + launch
}
