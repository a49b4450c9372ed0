package alloc

import "github.com/plimsoll/plimsoll/internal/units"

// collects tells whether garbage_collection_threshold is in force: it needs a cap.
func (a *Allocator) collects() bool { return a.conf.GarbageCollection > 0 && a.cap > 0 }

// collect frees cached segments that have not been used for long once reserved memory passes the threshold:
// garbage_collect_cached_blocks. Each pass releases everything at least as old as the mean, even past the
// target.
func (a *Allocator) collect() {
	threshold := units.Bytes(a.conf.GarbageCollection * float64(a.cap))
	if a.stats.Reserved <= threshold {
		return
	}
	target := a.stats.Reserved - threshold
	large := a.poolOf(0, false)
	var age, count uint64
	for _, r := range a.cached(large) {
		if !a.blocks[r].split() {
			age += a.age(r)
			count++
		}
	}
	var reclaimed units.Bytes
	for freed := true; reclaimed < target && freed && count > 0; {
		limit := float64(age) / float64(count)
		freed = false
		for _, r := range a.cached(large) {
			b := &a.blocks[r]
			if b.split() || a.isExpandable(r) || float64(a.age(r)) < limit {
				continue
			}
			freed = true
			reclaimed += b.size
			age -= a.age(r)
			count--
			a.release(r)
		}
	}
}

// age is how many searches of its pool a free block has seen: Block::gc_count.
func (a *Allocator) age(r ref) uint64 {
	b := &a.blocks[r]
	return a.pools[b.pool].searches - b.born
}

// cached lists the free mapped blocks of a pool in the order of the original's set. The list is valid until
// the next call.
func (a *Allocator) cached(pool int32) []ref {
	a.scratch = a.scratch[:0]
	sets := a.pools[pool].free
	for _, stream := range a.streamOrder(sets) {
		a.scratch = sets[stream].appendAll(a.scratch)
	}
	return a.scratch
}
