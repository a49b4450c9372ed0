package predict

import (
	"github.com/plimsoll/plimsoll/internal/eager"
	"github.com/plimsoll/plimsoll/internal/opgraph"
	"github.com/plimsoll/plimsoll/internal/units"
)

// oneSegment is what the allocator takes from CUDA for a request between 1 and 10 MiB (kLargeBuffer, c10/core/AllocatorConfig.h): the
// price of one request that finds no free block because an earlier one was placed differently.
const oneSegment = 20 * units.MiB

// safeBound is a number of reserved bytes that a run is not expected to exceed. Not known to the byte are the order in which the driver
// hands out addresses, which decides between equal free blocks (both orders are played); requests that land elsewhere than in the model and
// need a segment of their own (measured: at most 0.7 % of what is reserved, over all rows without convolutions; one percent is
// allowed, and never less than one segment); and which of cuDNN's kernels a convolution runs.
func safeBound(src Source, p *played, c convolutions) units.Bytes {
	reserved := max(p.reserved, p.upward)
	return reserved + max(oneSegment, reserved/100) + c.workspace(src)
}

// convolutions remembers the convolution with the largest possible workspace.
type convolutions struct {
	largest units.Bytes
	input   units.Bytes // of the convolution with the largest input
}

// see is told of every operator that runs.
func (c *convolutions) see(w eager.Work) {
	if w.Op != "aten::convolution" {
		return
	}
	c.largest = max(c.largest, 2*(w.Read+w.Written))
	c.input = max(c.input, w.Read)
}

// workspace is the most a convolution may take beyond what its rule says: copies of all that it reads and writes, in forward or of their
// gradients beside them in backward, in a segment of its own. Depthwise kernels of 7×7 and more in channels_last, as ConvNeXt has them, take nine
// inputs in fp32 (measured: 157 MiB for an input of 18 MiB).
func (c convolutions) workspace(src Source) units.Bytes {
	if src.Config != nil && src.Config.Type == "convnext" || src.Graph != nil && wideDepthwise(src.Graph) {
		return max(c.largest, 10*c.input)
	}
	return c.largest
}

// wideDepthwise tells whether a graph has depthwise convolutions of 7×7 or more.
func wideDepthwise(g *opgraph.Graph) bool {
	for i := range g.Nodes {
		n := &g.Nodes[i]
		w := n.Tensor("weight")
		if n.Target != "aten.conv2d.default" || w < 0 || len(g.Values[w].Sizes) != 4 {
			continue
		}
		if groups, ok := n.Arg("groups"); !ok || len(groups.Ints) == 0 || groups.Ints[0] == opgraph.Fixed(1) {
			continue
		}
		if side := g.Values[w].Sizes[2]; side == opgraph.Fixed(7) || side == opgraph.Fixed(9) || side == opgraph.Fixed(31) {
			return true
		}
	}
	return false
}
