package eager

import "github.com/plimsoll/plimsoll/internal/units"

// Workspaces of cuDNN 9.19's convolutions as measured on an H200 (testdata/ops.jsonl.gz). In NCHW the kernels work on channels_last copies,
// which the workspace holds: of everything a pass reads and writes, input channels padded to 8 in 16 bit.

// forward is the workspace of the forward pass.
func (s convShape) forward() units.Bytes {
	half := s.x.DType.Half()
	switch {
	case s.depthwise() || s.taps() == 1:
		return 0
	case s.last:
		return s.lastForward()
	case s.thin():
		return 0
	case s.patch() && !half && !s.c.Transposed:
		return 0
	case s.x.Rank() == 5 && !half:
		return s.x.Bytes() + s.w.Bytes()
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
	case s.taps() == 1 && !s.strided():
		return 0
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
	case s.taps() == 1 && !s.strided():
		return s.split()
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

// split is the partial sums of a weight gradient: as many fp32 copies of the weight as tiles of 128×128 leave room for on
// the card, as long as each sums over enough of the long dimension (batch and space): 1280 in fp32, 4096 in 16 bit, read off
// the short sums of a small network at two batch sizes.
func (s convShape) split() units.Bytes {
	tiles := ceilDiv(s.w.Dim(0), 128) * ceilDiv(s.w.Numel()/max(1, s.w.Dim(0)), 128)
	count := s.sms / max(tiles, 1)
	long := s.y.Numel() / max(1, s.y.Dim(1))
	if s.x.DType.Half() {
		count = min(count-1, long/4096)
	} else {
		count = min(count, ceilDiv(long, 1280))
	}
	if count < 2 {
		return 0
	}
	return units.Bytes(count) * units.Bytes(s.w.Numel()) * 4
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

// depthwiseGrad: only channels_last 7×7 in fp32 was seen to need a large buffer.
func (s convShape) depthwiseGrad() units.Bytes { return 0 }
