package alloc

import (
	"math/bits"

	"github.com/plimsoll/plimsoll/internal/torch"
	"github.com/plimsoll/plimsoll/internal/units"
)

// Rounded is the size of the block a request of size bytes asks for. Source: round_size and
// roundup_power2_next_division in CUDACachingAllocator.cpp.
func (a *Allocator) Rounded(size units.Bytes) units.Bytes {
	return a.conf.rounded(size, a.policy.Torch)
}

func (c *Conf) rounded(size units.Bytes, v torch.Version) units.Bytes {
	if size < minBlock {
		return minBlock
	}
	d := c.divisions(size)
	if d > 1 && size > minBlock*units.Bytes(d) {
		return roundToDivision(size, d)
	}
	// Before 2.4 one division left the size as it was (fixed by pytorch pull request 126830).
	if d == 1 && !torch.AlignedRounding.Has(v) && size > minBlock {
		return size
	}
	return roundUp(size, minBlock)
}

// roundToDivision rounds up to the next of d steps between two powers of two.
func roundToDivision(size units.Bytes, d int) units.Bytes {
	if size&(size-1) == 0 {
		return size
	}
	floor := units.Bytes(1) << (bits.Len64(uint64(size)) - 1)
	step := floor >> (bits.Len(uint(d)) - 1)
	if step == 0 {
		return floor << 1
	}
	return roundUp(size, step)
}

// divisions are those of the interval a size falls into: floor(log2), from 1 MiB on. Source:
// CUDAAllocatorConfig::roundup_power2_divisions.
func (c *Conf) divisions(size units.Bytes) int {
	if c.Bypass > 0 && size > c.Bypass {
		return 0
	}
	interval := bits.Len64(uint64(size)) - 1 - 20
	return c.Divisions[min(max(interval, 0), Intervals-1)]
}

// SegmentSize is what a request that has been rounded asks of the device under these settings.
func (c Conf) SegmentSize(rounded units.Bytes) units.Bytes {
	r := c.resolved()
	return r.segmentSize(rounded)
}

// segmentSize is what a request asks of the device when no cached block serves it: get_allocation_size.
func (c *Conf) segmentSize(size units.Bytes) units.Bytes {
	switch {
	case size <= smallSize:
		return smallBuffer
	case size < minLargeAlloc:
		return c.LargeSegment
	default:
		return roundUp(size, roundLarge)
	}
}

func roundUp(size, to units.Bytes) units.Bytes { return (size + to - 1) / to * to }
