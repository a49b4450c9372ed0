package alloc

import "github.com/plimsoll/plimsoll/internal/units"

// EmptyCache is torch.cuda.empty_cache(): everything cached that can go back to the device does.
func (a *Allocator) EmptyCache() { a.releaseCached() }

// ReleasePool marks a private pool as no longer in use: its graph or MemPool is gone, so that its memory may
// be released.
func (a *Allocator) ReleasePool(pool uint16) {
	if pool == 0 {
		return
	}
	a.pools[a.poolOf(pool, true)].freeable = true
	a.pools[a.poolOf(pool, false)].freeable = true
}

// releaseCached completes deferred frees and releases all cached memory: release_cached_blocks. The large
// default pool goes first, then the small one, then private pools nobody uses.
func (a *Allocator) releaseCached() {
	a.completeAll()
	a.releasePool(1)
	a.releasePool(0)
	for i := int32(2); i < int32(len(a.pools)); i++ {
		if a.pools[i].freeable {
			a.releasePool(i)
		}
	}
}

// releasePool gives back whole segments, then whole pages of expandable ones: release_blocks.
func (a *Allocator) releasePool(pool int32) {
	blocks := a.cached(pool)
	expandable := blocks[:0]
	for _, r := range blocks {
		if a.isExpandable(r) {
			expandable = append(expandable, r)
		} else if !a.blocks[r].split() {
			a.release(r)
		}
	}
	for _, r := range expandable {
		a.unmapPages(r)
	}
}

// releaseOversize makes room by releasing blocks at or above max_split_size, the one that suffices or the
// largest first: release_available_cached_blocks. It reports whether the device was given enough.
func (a *Allocator) releaseOversize(r *request) bool {
	limit := a.conf.MaxSplit
	if limit == unlimited || int(r.stream) >= len(a.pools[r.pool].free) {
		return false
	}
	set := &a.pools[r.pool].free[r.stream]
	need := max(r.size, limit)
	if b := set.at(set.seek(item{size: need})); b != 0 && !a.isExpandable(b) {
		return a.releaseWhole(b) > 0
	}
	a.scratch = set.appendAll(a.scratch[:0])
	var released units.Bytes
	for i := len(a.scratch) - 1; i >= 0 && released < need; i-- {
		b := a.scratch[i]
		if a.blocks[b].size < limit {
			break
		}
		if a.blocks[b].size >= need || a.isExpandable(b) {
			continue // above the key only expandable blocks are left, which are not released here
		}
		released += a.releaseWhole(b)
	}
	return released >= need
}

// releaseWhole releases a block that is a whole segment. Blocks of this size always are, unless the limit
// changed during the run.
func (a *Allocator) releaseWhole(r ref) units.Bytes {
	b := &a.blocks[r]
	if b.split() {
		return 0
	}
	size := b.size
	a.release(r)
	return size
}
