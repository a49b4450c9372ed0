package alloc

import (
	"cmp"
	"slices"

	"github.com/plimsoll/plimsoll/internal/units"
)

// regionSize is the granularity in which the driver hands out address space (measured: H200, PyTorch 2.11).
const regionSize = 32 * units.MiB

// Regions places segments as the measured driver mostly does: a segment goes to the low end of the lowest
// leftover that holds it; where none does, to a fresh region of the next multiple of 32 MiB, at the top of the
// lowest hole that earlier regions have left, or else directly below all others. Which hole the driver takes
// is not predictable, so that this is close to it but not exact.
func Regions() AddressSource { return RegionsBelow(middle) }

// RegionsBelow is Regions that begins below an address, where other segments already lie.
func RegionsBelow(addr uint64) AddressSource {
	return &regions{low: addr / uint64(regionSize) * uint64(regionSize), va: reserved}
}

type regions struct {
	low   uint64 // where the lowest region so far begins
	va    uint64
	all   []region // by address
	gaps  []span   // unused parts of regions, by address
	holes []span   // address space of regions that are gone, by address
}

type span struct{ from, to uint64 }

type region struct {
	span
	used uint64
}

func (r *regions) Segment(size units.Bytes) uint64 {
	n := uint64(size)
	for i, g := range r.gaps {
		if g.to-g.from >= n {
			r.gaps = shrink(r.gaps, i, span{g.from + n, g.to})
			r.use(g.from, n)
			return g.from
		}
	}
	fresh := r.fresh(uint64(roundUp(size, regionSize)))
	at, _ := slices.BinarySearchFunc(r.all, fresh.from, func(x region, addr uint64) int { return cmp.Compare(x.from, addr) })
	r.all = slices.Insert(r.all, at, region{fresh, n})
	if fresh.from+n < fresh.to {
		r.gaps = widen(r.gaps, span{fresh.from + n, fresh.to}, fresh)
	}
	return fresh.from
}

// fresh finds address space for a region of n bytes.
func (r *regions) fresh(n uint64) span {
	for i, h := range r.holes {
		if h.to-h.from >= n {
			r.holes = shrink(r.holes, i, span{h.from, h.to - n})
			return span{h.to - n, h.to}
		}
	}
	r.low -= n
	return span{r.low, r.low + n}
}

// use counts n bytes of the region at an address as used and gives its index, -1 where no region lies there.
func (r *regions) use(addr, n uint64) int {
	i, found := slices.BinarySearchFunc(r.all, addr, func(x region, a uint64) int { return cmp.Compare(x.from, a) })
	if !found {
		i--
	}
	if i < 0 || addr >= r.all[i].to {
		return -1
	}
	r.all[i].used += n
	return i
}

func (r *regions) Reserve(size units.Bytes) uint64 {
	addr := r.va
	r.va += uint64(roundUp(size, reserveGap))
	return addr
}

func (r *regions) Release(addr uint64, size units.Bytes) {
	i := r.use(addr, -uint64(size))
	if i < 0 {
		return // address space of an expandable segment, or memory from before
	}
	if whole := r.all[i]; whole.used == 0 {
		r.all = slices.Delete(r.all, i, i+1)
		r.gaps = slices.DeleteFunc(r.gaps, func(g span) bool { return g.from >= whole.from && g.to <= whole.to })
		r.holes = widen(r.holes, whole.span, span{0, reserved})
		return
	}
	r.gaps = widen(r.gaps, span{addr, addr + uint64(size)}, r.all[i].span)
}

// shrink replaces span i, or removes it where nothing is left.
func shrink(spans []span, i int, rest span) []span {
	if rest.from >= rest.to {
		return slices.Delete(spans, i, i+1)
	}
	spans[i] = rest
	return spans
}

// widen adds a span, merged with those it touches inside of bounds.
func widen(spans []span, s, bounds span) []span {
	i, _ := slices.BinarySearchFunc(spans, s.from, func(x span, addr uint64) int { return cmp.Compare(x.from, addr) })
	if i < len(spans) && spans[i].from == s.to && s.to < bounds.to {
		s.to = spans[i].to
		spans = slices.Delete(spans, i, i+1)
	}
	if i > 0 && spans[i-1].to == s.from && s.from > bounds.from {
		spans[i-1].to = s.to
		return spans
	}
	return slices.Insert(spans, i, s)
}
