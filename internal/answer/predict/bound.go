package predict

import (
	"github.com/plimsoll/plimsoll/internal/model/eager"
	"github.com/plimsoll/plimsoll/internal/model/tensor"
	"github.com/plimsoll/plimsoll/internal/units"
)

// oneSegment is what the allocator takes from CUDA for a request between 1 and 10 MiB (kLargeBuffer, c10/core/AllocatorConfig.h): the
// price of one request that finds no free block because an earlier one was placed differently.
const oneSegment = 20 * units.MiB

// safeBound is a number of reserved bytes that a run is not expected to exceed. Not known to the byte are the order in which the driver
// hands out addresses, which decides between equal free blocks (both orders are played); requests that land elsewhere than in the model and
// need a segment of their own (measured: at most 0.7 % of what is reserved, over all rows without convolutions; one percent is
// allowed, and never less than one segment); and which of cuDNN's kernels a convolution runs.
func safeBound(reserved units.Bytes, c convolutions) units.Bytes {
	return reserved + max(oneSegment, reserved/100) + c.largest
}

// convolutions remembers the largest workspace a convolution may take beyond what its rule says.
type convolutions struct{ largest units.Bytes }

// see is told of every operator that runs. In 16 bit and for dense kernels of two dimensions on more than four channels the measured
// rules hold. For others in fp32 (1×1, depthwise, images of three channels, 1-D and 3-D) kernels were seen to change with the size, to one that
// works on copies of all it reads and writes, in backward beside the gradients. Depthwise kernels of 7×7 and more in
// channels_last take nine inputs (measured: 157 MiB for an input of 18 MiB).
func (c *convolutions) see(w eager.Work) {
	if w.Conv == nil || w.DType != tensor.Float32 {
		return
	}
	k := w.Conv
	switch {
	case k.Groups == k.Channels && k.Taps >= 49 && k.ChannelsLast:
		c.largest = max(c.largest, 9*w.Read+w.Written)
	case k.Rank != 4 || k.Taps == 1 || k.Groups > 1 || k.Channels <= 4:
		c.largest = max(c.largest, 2*(w.Read+w.Written))
	}
}
