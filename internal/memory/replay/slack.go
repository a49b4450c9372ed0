package replay

import (
	"cmp"
	"slices"

	"github.com/plimsoll/plimsoll/internal/evidence/recording"
	"github.com/plimsoll/plimsoll/internal/memory/alloc"
	"github.com/plimsoll/plimsoll/internal/units"
	"github.com/plimsoll/plimsoll/snapshot"
)

// gap is the memory behind a block whose size is not known exactly.
type gap struct {
	start, end uint64 // from the end of the rounded request to the next block or the end of the segment
	block      int
	died       uint32 // trace event that frees the block
}

// addSlack finds the true sizes of blocks in large segments that only their frees show. Such a block may be up
// to 1 MiB larger than its rounded request, since smaller remainders are not split off (should_split in
// CUDACachingAllocator.cpp); a block of at least max_split_size is a whole segment. The next block, or the first
// later allocation in the gap behind it, shows where it ends.
func (c *Case) addSlack(ranges []held, blocks []alloc.BlockState) {
	r := c.Recording
	var gaps []gap
	for _, h := range ranges {
		if h.small || h.expandable {
			continue
		}
		first, last := indexAt(blocks, h.addr), indexAt(blocks, h.end)
		for i := first; i < last; i++ {
			b := &blocks[i]
			if r.Died[b.ID] == recording.NeverFreed {
				continue
			}
			end := h.end
			if i+1 < last {
				end = blocks[i+1].Address
			}
			free := units.Bytes(end - b.Address - uint64(b.Size))
			switch {
			case free <= 0:
			case c.Conf.MaxSplit > 0 && b.Size >= c.Conf.MaxSplit, free <= units.MiB:
				b.Size += free
			default:
				gaps = append(gaps, gap{b.Address + uint64(b.Size), end, i, r.Event[r.Died[b.ID]]})
			}
		}
	}
	c.closeGaps(gaps, blocks)
}

// closeGaps looks for the first allocation in each gap while its block lives. Blocks are handed out from the
// front, so that its address is where the free memory begins.
func (c *Case) closeGaps(gaps []gap, blocks []alloc.BlockState) {
	t := c.Recording.Trace
	slices.SortFunc(gaps, func(x, y gap) int { return cmp.Compare(x.start, y.start) })
	done := make([]bool, len(gaps))
	for i, a := range t.Action {
		if a != snapshot.ActionAlloc || len(gaps) == 0 {
			continue
		}
		g, found := slices.BinarySearchFunc(gaps, t.Addr[i], func(g gap, addr uint64) int { return cmp.Compare(g.start, addr) })
		if !found {
			g--
		}
		if g < 0 || done[g] || t.Addr[i] >= gaps[g].end || uint32(i) >= gaps[g].died {
			continue
		}
		done[g] = true
		if slack := units.Bytes(t.Addr[i] - gaps[g].start); slack <= units.MiB {
			blocks[gaps[g].block].Size += slack
		}
	}
}

func indexAt(blocks []alloc.BlockState, addr uint64) int {
	i, _ := slices.BinarySearchFunc(blocks, addr, func(b alloc.BlockState, a uint64) int { return cmp.Compare(b.Address, a) })
	return i
}
