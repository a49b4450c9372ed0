package eager

import (
	"slices"

	"github.com/plimsoll/plimsoll/internal/model/cudnn"
	"github.com/plimsoll/plimsoll/internal/units"
)

// copied is what a pass in NCHW moves beside its operands, for the time it takes: cuDNN's kernels work on copies in channels_last, made before
// and undone after the kernel. Read off profiled steps of convolutional models on an H200 (answer/cost/testdata); how much memory the copies take is
// measured apart (package cudnn).
func (s convShape) copied(pass cudnn.Pass) units.Bytes {
	strided := slices.ContainsFunc(s.c.Stride, func(v int) bool { return v != 1 })
	switch {
	case s.last || s.depthwise(): // in place; depthwise kernels are PyTorch's own
		return 0
	case s.taps() > 1:
		return s.x.Bytes() + s.y.Bytes() + s.w.Bytes()
	case strided || !s.x.DType.Half() && s.area()%4 != 0: // rows of the image do not begin on 16 bytes
		return s.x.Bytes() + s.y.Bytes()
	case pass == cudnn.WeightGrad: // a product of matrices for each image, then their sum
		return units.Bytes(s.x.Dim(0)*s.w.Numel()) * 4
	}
	return 0
}

// area is the number of pixels of one channel.
func (s convShape) area() int {
	n := 1
	for _, d := range s.x.Sizes[2:] {
		n *= d
	}
	return n
}
