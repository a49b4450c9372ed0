package recording

import (
	"cmp"
	"slices"

	"github.com/plimsoll/plimsoll/snapshot"
)

// region is a range of addresses that belongs to a private pool.
type region struct {
	start, end uint64
	pool       uint16
}

// privateRegions lists the final segments of private pools, by address. Events carry their pool only from
// PyTorch 2.12 on; before that the segment they fall into tells it, as long as the segment was not released
// inside the history.
func (b *builder) privateRegions() []region {
	var out []region
	for i := range b.r.Snapshot.Segments {
		s := &b.r.Snapshot.Segments[i]
		if s.Device != b.r.Device || s.PoolID == [2]int64{} {
			continue
		}
		out = append(out, region{s.Address, s.Address + uint64(s.TotalSize), b.pool(s.PoolID)})
	}
	slices.SortFunc(out, func(x, y region) int { return cmp.Compare(x.start, y.start) })
	return out
}

// poolOf tells the pool of event i.
func (b *builder) poolOf(i int) uint16 {
	t := b.r.Trace
	if t.Pool != nil {
		return b.pool(t.PoolIDs[t.Pool[i]])
	}
	if len(b.regions) == 0 || t.Action[i] == snapshot.ActionOOM {
		return 0
	}
	addr := t.Addr[i]
	k, found := slices.BinarySearchFunc(b.regions, addr, func(r region, a uint64) int { return cmp.Compare(r.start, a) })
	if !found {
		k--
	}
	if k >= 0 && addr < b.regions[k].end {
		return b.regions[k].pool
	}
	return 0
}
