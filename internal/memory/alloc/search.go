package alloc

import "github.com/plimsoll/plimsoll/internal/units"

// search takes the best cached block for a request out of its free set: get_free_block. The smallest block
// that suffices wins, the lowest address among equals.
func (a *Allocator) search(r *request) ref {
	p := &a.pools[r.pool]
	if a.collects() {
		p.searches++
	}
	if int(r.stream) >= len(p.free) {
		return 0
	}
	set := &p.free[r.stream]
	at, b := a.find(set, r)
	if b != 0 {
		set.removeAt(at)
	}
	return b
}

// find is search without taking.
func (a *Allocator) find(set *freeSet, r *request) (place, ref) {
	at := set.seek(item{size: r.size})
	b := set.at(at)
	if b != 0 && a.isExpandable(b) {
		at, b = a.searchExpandable(set, at, a.expandable(&a.pools[r.pool]))
	}
	if b == 0 || a.refusesOversize(r.size, a.blocks[b].size) {
		return place{}, 0
	}
	return at, b
}

// searchExpandable steps past a block that would be better left to grow: as long as the next block, with the
// address space behind it, is smaller than this one with its own. Where expandable segments have been switched
// off, it steps past all blocks of such segments.
func (a *Allocator) searchExpandable(set *freeSet, at place, active bool) (place, ref) {
	b := set.at(at)
	for b != 0 && a.isExpandable(b) {
		next := set.next(at)
		n := set.at(next)
		if active && (n == 0 || a.reach(n) >= a.reach(b)) {
			return at, b
		}
		at, b = next, n
	}
	return at, b
}

// reach is the size a block has or can grow to.
func (a *Allocator) reach(r ref) units.Bytes {
	b := &a.blocks[r]
	if b.next != 0 && !a.blocks[b.next].mapped {
		return b.size + a.blocks[b.next].size
	}
	return b.size
}

func (a *Allocator) isExpandable(r ref) bool { return a.segments[a.blocks[r].segment].expandable }

// refusesOversize applies max_split_size: blocks at or above it serve only requests at or above it, and those
// only with little waste.
func (a *Allocator) refusesOversize(size, block units.Bytes) bool {
	limit := a.conf.MaxSplit
	if size < limit {
		return block >= limit
	}
	return block >= size+a.conf.NonSplitRounding
}
