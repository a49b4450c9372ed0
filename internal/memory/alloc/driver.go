package alloc

import (
	"slices"

	"github.com/plimsoll/plimsoll/internal/units"
)

// Driver places segments as the driver was seen to place those of small jobs (driver 580, H200, PyTorch 2.11; the first segments of recordings in testdata/snapshots): it takes address space in
// units of 32 MiB, each below all before, and puts a segment at the lower end; what is left over, and 414 MiB that setting up CUDA frees after a few segments, is filled from the lowest address up.
func Driver() AddressSource {
	d := &driver{next: middle, va: reserved}
	d.early = hole{middle, freedAtStart}
	return d
}

const (
	freedAtStart = uint64(414 * units.MiB)
	freedAfter   = 3 // segments
)

type hole struct{ at, size uint64 }

type driver struct {
	next, va uint64
	placed   int
	early    hole
	free     []hole // by address
}

func (d *driver) Segment(size units.Bytes) uint64 {
	want := uint64(size)
	if d.placed++; d.placed == freedAfter+1 {
		d.give(d.early)
	}
	for i := range d.free {
		if h := &d.free[i]; h.size >= want {
			at := h.at
			h.at, h.size = h.at+want, h.size-want
			if h.size == 0 {
				d.free = slices.Delete(d.free, i, i+1)
			}
			return at
		}
	}
	whole := uint64(roundUp(size, reserveGap))
	d.next -= whole
	if whole > want {
		d.give(hole{d.next + want, whole - want})
	}
	return d.next
}

// give adds what is free, next to what was already.
func (d *driver) give(s hole) {
	i, _ := slices.BinarySearchFunc(d.free, s.at, func(h hole, at uint64) int {
		if h.at < at {
			return -1
		}
		return 1
	})
	d.free = slices.Insert(d.free, i, s)
	if i+1 < len(d.free) && d.free[i].at+d.free[i].size == d.free[i+1].at {
		d.free[i].size += d.free[i+1].size
		d.free = slices.Delete(d.free, i+1, i+2)
	}
	if i > 0 && d.free[i-1].at+d.free[i-1].size == d.free[i].at {
		d.free[i-1].size += d.free[i].size
		d.free = slices.Delete(d.free, i, i+1)
	}
}

func (d *driver) Reserve(size units.Bytes) uint64 {
	addr := d.va
	d.va += uint64(roundUp(size, reserveGap))
	return addr
}

func (d *driver) Release(addr uint64, size units.Bytes) { d.give(hole{addr, uint64(size)}) }
