package replay

import (
	"cmp"
	"maps"
	"slices"

	"github.com/plimsoll/plimsoll/internal/evidence/recording"
	"github.com/plimsoll/plimsoll/internal/memory/alloc"
	"github.com/plimsoll/plimsoll/internal/units"
	"github.com/plimsoll/plimsoll/snapshot"
)

// held is a range of memory PyTorch had from the device.
type held struct {
	addr, end  uint64
	stream     uint64
	pool       [2]int64
	small      bool
	expandable bool
}

// maxRanges bounds the work on a hostile file: no real process has its expandable segments in so many pieces.
const maxRanges = 1 << 13

// initialState rebuilds what PyTorch held when the history began, by walking it backwards from the final
// segments. It is empty for a history that reaches back to the start.
func (c *Case) initialState() []alloc.SegmentState {
	if c.Recording.Complete {
		return nil
	}
	ranges, ok := c.initialRanges()
	if !ok {
		c.Warnings = append(c.Warnings, "what was held before the history began could not be rebuilt")
		return nil
	}
	return c.fillRanges(coalesce(ranges))
}

// coalesce joins pages of expandable segments that touch: a block may cross from one to the next.
func coalesce(ranges []held) []held {
	var out []held
	for _, h := range ranges {
		if n := len(out); n > 0 && h.expandable {
			joined := out[n-1]
			joined.addr, joined.end = h.addr, h.end
			if joined == h && out[n-1].end == h.addr {
				out[n-1].end = h.end
				continue
			}
		}
		out = append(out, h)
	}
	return out
}

// sane tells whether a range can lie in a GPU's address space (57 bits at most, CUDA programming guide).
func sane(addr uint64, size int64) bool { return size > 0 && size < 1<<57 && addr < 1<<57 }

// initialRanges inverts every segment event, the last first.
func (c *Case) initialRanges() ([]held, bool) {
	t := c.Recording.Trace
	whole, pages := c.finalRanges()
	for i := t.Len() - 1; i >= 0; i-- {
		if !isSegment(t.Action[i]) || !sane(t.Addr[i], t.Size[i]) {
			continue
		}
		h := held{addr: t.Addr[i], end: t.Addr[i] + uint64(t.Size[i]), stream: t.Streams[t.Stream[i]]}
		switch t.Action[i] {
		case snapshot.ActionSegmentAlloc:
			delete(whole, h.addr)
		case snapshot.ActionSegmentFree:
			h.small = h.end-h.addr == uint64(2*units.MiB) // segments of the large pool are larger
			whole[h.addr] = h
		case snapshot.ActionSegmentMap:
			pages = cutOut(pages, h.addr, h.end)
		case snapshot.ActionSegmentUnmap:
			if len(pages) >= maxRanges {
				return nil, false
			}
			pages = c.putBack(pages, h)
		}
	}
	ranges := slices.AppendSeq(pages, maps.Values(whole))
	slices.SortFunc(ranges, byAddress)
	return ranges, true
}

func byAddress(x, y held) int { return cmp.Compare(x.addr, y.addr) }

// finalRanges are the segments at the end: whole ones by address, and the pages of expandable ones in order.
func (c *Case) finalRanges() (whole map[uint64]held, pages []held) {
	whole = map[uint64]held{}
	for _, s := range c.Recording.Snapshot.Segments {
		if s.Device != c.Recording.Device || !sane(s.Address, s.TotalSize) {
			continue
		}
		h := held{s.Address, s.Address + uint64(s.TotalSize), s.Stream, s.PoolID, s.Small, s.Expandable}
		if h.expandable {
			pages = append(pages, h)
		} else {
			whole[h.addr] = h
		}
	}
	slices.SortFunc(pages, byAddress)
	return whole, pages
}

// putBack adds pages that were unmapped. They belong to the segment of the nearest pages of their stream; where there
// are none, their size tells: pages of the large pool come in multiples of a large page.
func (c *Case) putBack(pages []held, h held) []held {
	const near = 64 * uint64(units.GiB) // segments are more than a device apart
	h.expandable = true
	h.small = (h.end-h.addr)%uint64(c.largePage()) != 0
	at, _ := slices.BinarySearchFunc(pages, h, byAddress)
	best := near
	for _, i := range []int{at - 1, at} {
		if i < 0 || i >= len(pages) || pages[i].stream != h.stream {
			continue
		}
		if d := max(pages[i].addr, h.addr) - min(pages[i].addr, h.addr); d < best {
			best, h.small, h.pool = d, pages[i].small, pages[i].pool
		}
	}
	return slices.Insert(pages, at, h)
}

func (c *Case) largePage() units.Bytes {
	if c.Conf.LargeSegment > 0 {
		return c.Conf.LargeSegment
	}
	return 20 * units.MiB
}

// cutOut removes [addr, end) from the ranges; what sticks out stays.
func cutOut(ranges []held, addr, end uint64) []held {
	i, _ := slices.BinarySearchFunc(ranges, addr, func(r held, a uint64) int { return cmp.Compare(r.end, a+1) })
	for i < len(ranges) && ranges[i].addr < end {
		r := ranges[i]
		ranges = slices.Delete(ranges, i, i+1)
		if r.end > end {
			right := r
			right.addr = end
			ranges = slices.Insert(ranges, i, right)
		}
		if r.addr < addr {
			r.end = addr
			ranges = slices.Insert(ranges, i, r)
			i++
		}
		if r.end > end {
			break
		}
	}
	return ranges
}

// fillRanges puts the allocations alive at the start into the ranges.
func (c *Case) fillRanges(ranges []held) []alloc.SegmentState {
	blocks, mapped := c.initialBlocks(ranges), c.everMapped()
	var out []alloc.SegmentState
	groups := map[held]*alloc.SegmentState{}
	var order []held
	for _, h := range ranges {
		inside := blocksIn(blocks, h)
		if !h.expandable {
			s := c.segmentState(h)
			s.Blocks = tile(h.addr, h.end, inside)
			out = append(out, s)
			continue
		}
		key := held{stream: h.stream, pool: h.pool, small: h.small, expandable: true}
		if groups[key] == nil {
			s := c.segmentState(h)
			s.Address = base(h, mapped)
			s.Size = units.TiB + units.TiB/8
			groups[key] = &s
			order = append(order, key)
		}
		g := groups[key]
		g.Blocks = append(g.Blocks, unmapped(g, h.addr)...)
		g.Blocks = appendMerged(g.Blocks, tile(h.addr, h.end, inside))
	}
	for _, key := range order {
		g := groups[key]
		end := g.Blocks[len(g.Blocks)-1]
		g.Size = max(g.Size, units.Bytes(end.Address-g.Address)+end.Size+units.TiB)
		g.Blocks = append(g.Blocks, unmapped(g, g.Address+uint64(g.Size))...)
		out = append(out, *g)
	}
	return out
}

func (c *Case) segmentState(h held) alloc.SegmentState {
	return alloc.SegmentState{
		Address: h.addr, Size: units.Bytes(h.end - h.addr), Small: h.small, Expandable: h.expandable,
		Stream: c.streamIndex(h.stream), Pool: c.poolIndex(h.pool),
	}
}

// base is where an expandable segment begins whose lowest page at the start is h: the lowest page ever mapped in it.
func base(h held, mapped []held) uint64 {
	low := h.addr
	at, _ := slices.BinarySearchFunc(mapped, h, byAddress)
	for i := at - 1; i >= 0 && mapped[i].stream == h.stream && low-mapped[i].addr < 64*uint64(units.GiB); i-- {
		low = mapped[i].addr
	}
	return low
}

// everMapped lists the pages that the history maps or unmaps, by address.
func (c *Case) everMapped() []held {
	t := c.Recording.Trace
	var out []held
	for i, a := range t.Action {
		if (a == snapshot.ActionSegmentMap || a == snapshot.ActionSegmentUnmap) && sane(t.Addr[i], t.Size[i]) {
			out = append(out, held{addr: t.Addr[i], end: t.Addr[i] + uint64(t.Size[i]), stream: t.Streams[t.Stream[i]]})
		}
	}
	slices.SortFunc(out, byAddress)
	return out
}

// tile covers a range with the blocks in it and free ones between them.
func tile(addr, end uint64, blocks []alloc.BlockState) []alloc.BlockState {
	var out []alloc.BlockState
	at := addr
	for _, b := range blocks {
		if b.Address < at || b.Address+uint64(b.Size) > end {
			continue // contradicts a block before it
		}
		if b.Address > at {
			out = append(out, alloc.BlockState{Address: at, Size: units.Bytes(b.Address - at), Free: true, Mapped: true})
		}
		out = append(out, b)
		at = b.Address + uint64(b.Size)
	}
	if at < end {
		out = append(out, alloc.BlockState{Address: at, Size: units.Bytes(end - at), Free: true, Mapped: true})
	}
	return out
}

// unmapped is the address space between the last block of a segment and addr.
func unmapped(s *alloc.SegmentState, addr uint64) []alloc.BlockState {
	at := s.Address
	if n := len(s.Blocks); n > 0 {
		at = s.Blocks[n-1].Address + uint64(s.Blocks[n-1].Size)
	}
	if at >= addr {
		return nil
	}
	return []alloc.BlockState{{Address: at, Size: units.Bytes(addr - at), Free: true}}
}

// appendMerged appends blocks, the first merged with the last where both are free memory.
func appendMerged(to, blocks []alloc.BlockState) []alloc.BlockState {
	if n := len(to); n > 0 && len(blocks) > 0 && to[n-1].Free && to[n-1].Mapped && blocks[0].Free {
		to[n-1].Size += blocks[0].Size
		blocks = blocks[1:]
	}
	return append(to, blocks...)
}

func blocksIn(blocks []alloc.BlockState, h held) []alloc.BlockState {
	return blocks[indexAt(blocks, h.addr):indexAt(blocks, h.end)]
}

func (c *Case) streamIndex(handle uint64) uint16 {
	return uint16(max(0, slices.Index(c.Recording.Tape.Streams, handle)))
}

func (c *Case) poolIndex(id [2]int64) uint16 {
	return uint16(max(0, slices.Index(c.Recording.Tape.Pools, [2]uint64{uint64(id[0]), uint64(id[1])})))
}

// initialBlocks gives the allocations alive at the start their sizes, by address.
func (c *Case) initialBlocks(ranges []held) []alloc.BlockState {
	r := c.Recording
	final := map[uint64]snapshot.Block{}
	for _, s := range r.Snapshot.Segments {
		if s.Device == r.Device {
			for _, b := range s.Blocks {
				final[b.Address] = b
			}
		}
	}
	model := alloc.New(alloc.Policy{Conf: c.Conf, Torch: c.Torch})
	var blocks []alloc.BlockState
	for _, l := range r.Tape.Initial {
		b := alloc.BlockState{Address: r.Addr[l.ID], ID: l.ID, Requested: l.Size, Size: model.Rounded(l.Size), Mapped: true}
		if r.Died[l.ID] == recording.NeverFreed {
			f := final[b.Address]
			b.Size, b.Pending = units.Bytes(f.Size), f.State == snapshot.PendingFree
		}
		if sane(b.Address, int64(b.Size)) {
			blocks = append(blocks, b)
		}
	}
	slices.SortFunc(blocks, func(x, y alloc.BlockState) int { return cmp.Compare(x.Address, y.Address) })
	blocks = slices.CompactFunc(blocks, func(x, y alloc.BlockState) bool { return x.Address == y.Address })
	c.addSlack(ranges, blocks)
	return blocks
}
