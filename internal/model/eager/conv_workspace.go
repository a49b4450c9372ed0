package eager

import "github.com/plimsoll/plimsoll/internal/units"

// Workspaces of cuDNN 9.19's convolutions as measured on an H200 (testdata/ops.jsonl.gz). In NCHW the kernels work on channels_last copies,
// which the workspace holds: of everything a pass reads and writes, input channels padded to 8 in 16 bit.

// forward is the workspace of the forward pass.
func (s convShape) forward() units.Bytes {
	half := s.x.DType.Half()
	switch {
	case s.depthwise():
		return 0
	case s.last:
		return s.lastForward()
	case s.taps() == 1 && s.strided() && s.area(s.y)%8 == 0:
		return s.x.Bytes() + s.w.Bytes()
	case s.taps() == 1:
		return s.pointwiseCopies()
	case s.x.Dim(1) == 64 && s.y.Dim(1) == 64 && !half && s.area(s.y) < 1<<14 && !s.c.Transposed:
		return s.x.Bytes() + s.w.Bytes() // the recorded trace's 64→64 on 56×56 writes its output in place
	case s.x.Rank() == 5 && !half:
		return s.x.Bytes() + s.w.Bytes()
	case s.thin():
		return 0
	case s.patch() && !half && !s.c.Transposed:
		return 0
	}
	return s.xCopy() + s.y.Bytes() + s.wCopy()
}

// inputGrad is the workspace of the pass that computes the input's gradient.
func (s convShape) inputGrad() units.Bytes {
	half := s.x.DType.Half()
	switch {
	case s.depthwise():
		return s.depthwiseGrad()
	case s.last:
		return s.lastGrad()
	case s.taps() == 1:
		return s.pointwiseCopies()
	case s.thin() && !half:
		return 0
	}
	return s.y.Bytes() + s.xCopy() + s.wCopy()
}

// weightGrad is the workspace of the pass that computes the weight's gradient: copies, and partial sums where
// the long dimension is split over the multiprocessors.
func (s convShape) weightGrad() units.Bytes {
	half := s.x.DType.Half()
	switch {
	case s.depthwise():
		return s.depthwiseGrad()
	case s.last:
		return s.lastGrad() + s.split()
	case s.taps() == 1:
		return s.pointwiseWeightGrad()
	case s.thin() && !half:
		return 0
	}
	x := s.xCopy()
	if !half {
		x = padded(s.x, 1, 4)
	}
	return s.y.Bytes() + x + s.wCopy() + s.split() + s.wideSums()
}

// wideSums are seven partial sums of the weight that one class of fp32 weight gradients takes: dilated kernels on 2048 channels, seen
// in every fp32 step of deeplabv3_resnet50 at both batch sizes (126 MiB for its weight of 18 MiB); 512 channels take none.
func (s convShape) wideSums() units.Bytes {
	if s.x.DType.Half() || !s.dilated() || s.w.Dim(1) < 2048 {
		return 0
	}
	return 7 * s.w.Bytes()
}

func (s convShape) xCopy() units.Bytes {
	if s.x.DType.Half() {
		return padded(s.x, 1, 8)
	}
	return s.x.Bytes()
}

func (s convShape) wCopy() units.Bytes {
	if s.x.DType.Half() {
		return padded(s.w, 1, 8)
	}
	return s.w.Bytes()
}

// pointwiseCopies: a 1×1 of stride one multiplies matrices where they lie if rows of the image are aligned to 16 bytes
// in fp32; otherwise, and where strided, it works on copies of input and output (recorded trace of resnet50, fp32).
func (s convShape) pointwiseCopies() units.Bytes {
	if s.strided() {
		return s.x.Bytes() + s.y.Bytes()
	}
	if !s.unaligned() {
		return 0
	}
	return s.x.Bytes() + s.y.Bytes()
}

// pointwiseWeightGrad: with fewer than 32 tiles every image of the batch has a partial sum of its own and nothing is copied; else the
// sum is split as usual, over copies. Seen in the recorded trace (1024→256 sums by image, 1024→512 does not) and in every 16-bit step of
// mobilenet_v2 and efficientnet_b0 (320→1280), densenet121 (992→128) and shufflenet_v2 (464→1024 does not).
func (s convShape) pointwiseWeightGrad() units.Bytes {
	tiles := ceilDiv(s.w.Dim(0), 128) * ceilDiv(s.w.Dim(1), 128)
	if s.strided() || tiles >= 32 || s.unaligned() {
		return s.x.Bytes() + s.y.Bytes() + s.split()
	}
	return units.Bytes(s.x.Dim(0)*s.w.Numel()) * 4
}

// unaligned tells whether an fp32 image does not begin on 16 bytes.
func (s convShape) unaligned() bool { return !s.x.DType.Half() && s.area(s.x)%4 != 0 }

// area is the number of pixels of one channel.
func (s convShape) area(t *Tensor) int {
	n := 1
	for _, d := range t.Sizes[2:] {
		n *= d
	}
	return n
}

// split is the partial sums of a weight gradient: as many fp32 copies of the (padded) weight as tiles leave room for on the card, each
// at least 1024 products long. Tiles are 128×128, 64×64 for fp32 weights of at most 64 outputs; every group has its own.
func (s convShape) split() units.Bytes {
	groups, side := s.c.Groups, 128
	if s.w.Dim(0)/groups <= 64 && !s.x.DType.Half() && s.x.Dim(1) > 4 {
		side = 64
	}
	tiles := groups * ceilDiv(s.w.Dim(0)/groups, side) * ceilDiv(s.w.Numel()/max(1, s.w.Dim(0)), side)
	weight := s.wCopy() / s.w.DType.Width() * 4
	if s.x.Dim(1) <= 4 && s.y.Dim(1) <= 64 && !s.x.DType.Half() {
		tiles, weight = 1, padded(s.w, 1, 4) // the stem of the recorded trace: 120 sums of 64×4×7×7
	}
	if tiles > s.sms && !s.x.DType.Half() && s.taps() > 1 && !s.dilated() {
		// The tiles of the last, partial wave are split in seven (recorded trace, 512→512: 84 tiles of 64 KiB for 144-132); dilated
		// kernels do without (measured).
		return units.Bytes(7*(tiles%s.sms)) * units.Bytes(side*side*4)
	}
	long := s.x.Dim(0) * min(s.area(s.x), s.area(s.y))
	count := min(s.sms/max(tiles, 1), long/1024)
	if s.x.DType.Half() {
		count--
	}
	if count < 2 {
		return 0
	}
	return units.Bytes(count) * weight
}

// lastForward: channels_last needs no copies, but for images of three channels.
func (s convShape) lastForward() units.Bytes {
	if s.x.Dim(1) <= 4 {
		return s.xCopy()
	}
	return 0
}

func (s convShape) lastGrad() units.Bytes {
	half := s.x.DType.Half()
	switch {
	case s.thin():
		return padded(s.x, 1, 16/int(s.x.DType.Width()))
	case s.x.Dim(1) <= 4 && half:
		return s.xCopy()
	case s.x.Dim(1) <= 4:
		return s.x.Bytes() + s.y.Bytes()
	case !half && (s.dilated() || s.c.Groups > 1):
		return s.x.Bytes() + s.y.Bytes()
	}
	return 0
}

// depthwiseGrad: channels_last kernels of 7×7 need fp32 copies of input and gradient in 16 bit, and in fp32 the input unfolded along the
// kernel's rows (measured once, and the reserved bytes of convnext_tiny agree); smaller kernels nothing.
func (s convShape) depthwiseGrad() units.Bytes {
	if !s.last || s.taps() < 49 {
		return 0
	}
	if s.x.DType.Half() {
		return units.Bytes(s.x.Numel()) * 2 * 4
	}
	kernel, width := s.c.Kernel[0], s.x.Dim(3)+s.c.Kernel[1]-1
	return units.Bytes(s.x.Numel()/max(1, s.x.Dim(3))) * units.Bytes(width*kernel*4)
}
