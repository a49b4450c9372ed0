package replay

import (
	"cmp"
	"slices"

	"github.com/plimsoll/plimsoll/internal/alloc"
	"github.com/plimsoll/plimsoll/internal/recorded"
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

// maxRanges bounds the work on a hostile file: no real process holds so many pieces.
const maxRanges = 1 << 16

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

// initialRanges inverts every segment event, the last first.
func (c *Case) initialRanges() ([]held, bool) {
	t := c.Recording.Trace
	var ranges []held
	for _, s := range c.Recording.Snapshot.Segments {
		if s.Device == c.Recording.Device {
			ranges = append(ranges, held{s.Address, s.Address + uint64(s.TotalSize), s.Stream, s.PoolID, s.Small, s.Expandable})
		}
	}
	slices.SortFunc(ranges, func(x, y held) int { return cmp.Compare(x.addr, y.addr) })
	for i := t.Len() - 1; i >= 0; i-- {
		if !isSegment(t.Action[i]) || t.Size[i] <= 0 {
			continue
		}
		addr, end := t.Addr[i], t.Addr[i]+uint64(t.Size[i])
		if isGrowth(t.Action[i]) {
			ranges = cutOut(ranges, addr, end)
			continue
		}
		if len(ranges) >= maxRanges {
			return nil, false
		}
		h := held{addr: addr, end: end, stream: t.Streams[t.Stream[i]]}
		h.expandable = t.Action[i] == snapshot.ActionSegmentUnmap
		h.small = c.isSmall(h)
		at, _ := slices.BinarySearchFunc(ranges, addr, func(r held, a uint64) int { return cmp.Compare(r.addr, a) })
		ranges = slices.Insert(ranges, at, h)
	}
	return ranges, true
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

// isSmall tells the small from the large pool for ranges that are no longer there at the end: a segment of 2 MiB
// is of the small pool, and pages that are no multiple of the large page are small ones.
func (c *Case) isSmall(h held) bool {
	if !h.expandable {
		return h.end-h.addr == uint64(2*units.MiB)
	}
	page := c.Conf.LargeSegment
	if page == 0 {
		page = 20 * units.MiB
	}
	return (h.end-h.addr)%uint64(page) != 0
}

// fillRanges puts the allocations alive at the start into the ranges.
func (c *Case) fillRanges(ranges []held) []alloc.SegmentState {
	blocks := c.initialBlocks(ranges)
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
			s.Address = c.lowest(h)
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

// lowest is the lowest address seen of the expandable segment a range belongs to: its base.
func (c *Case) lowest(h held) uint64 {
	t, low := c.Recording.Trace, h.addr
	for i, a := range t.Action {
		if (a == snapshot.ActionSegmentMap || a == snapshot.ActionSegmentUnmap) &&
			t.Streams[t.Stream[i]] == h.stream && t.Addr[i] < low && h.addr-t.Addr[i] < uint64(units.TiB) {
			if c.isSmall(held{addr: t.Addr[i], end: t.Addr[i] + uint64(t.Size[i]), expandable: true}) == h.small {
				low = t.Addr[i]
			}
		}
	}
	return low
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
		if r.Died[l.ID] == recorded.NeverFreed {
			f := final[b.Address]
			b.Size, b.Pending = units.Bytes(f.Size), f.State == snapshot.PendingFree
		}
		blocks = append(blocks, b)
	}
	slices.SortFunc(blocks, func(x, y alloc.BlockState) int { return cmp.Compare(x.Address, y.Address) })
	blocks = slices.CompactFunc(blocks, func(x, y alloc.BlockState) bool { return x.Address == y.Address })
	c.addSlack(ranges, blocks)
	return blocks
}
