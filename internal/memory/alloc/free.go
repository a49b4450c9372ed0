package alloc

// Free gives an allocation up. A deferred free waits for other streams (record_stream): the memory returns to
// the pool only at FreeCompleted, or when the allocator synchronises to recover. An id that holds no block is
// left alone.
func (a *Allocator) Free(id uint32, deferred bool) {
	r := a.blockOf(id)
	if r == 0 || a.blocks[r].state != allocated {
		return
	}
	a.stats.Allocated -= a.blocks[r].size
	if deferred {
		a.wait(r)
		return
	}
	a.live[id] = 0
	a.giveBack(r)
}

// FreeCompleted lets a deferred free take effect. One that recovery has already completed is left alone.
func (a *Allocator) FreeCompleted(id uint32) {
	r := a.blockOf(id)
	if r == 0 || a.blocks[r].state != pending {
		return
	}
	a.complete(r)
}

// wait appends a block to the list of those that wait.
func (a *Allocator) wait(r ref) {
	b := &a.blocks[r]
	b.state, b.before, b.after = pending, a.last, 0
	if a.last != 0 {
		a.blocks[a.last].after = r
	} else {
		a.pending = r
	}
	a.last = r
}

func (a *Allocator) complete(r ref) {
	b := &a.blocks[r]
	if b.before != 0 {
		a.blocks[b.before].after = b.after
	} else {
		a.pending = b.after
	}
	if b.after != 0 {
		a.blocks[b.after].before = b.before
	} else {
		a.last = b.before
	}
	b.before, b.after = 0, 0
	a.live[b.id] = 0
	a.giveBack(r)
}

// completeAll is synchronize_and_free_events: everything that waits becomes free at once.
func (a *Allocator) completeAll() {
	for a.pending != 0 {
		a.complete(a.pending)
	}
}

// giveBack returns a block to its pool and merges it with free neighbours: free_block.
func (a *Allocator) giveBack(r ref) {
	b := &a.blocks[r]
	a.stats.returned(b.size, b.requested)
	b.state = free
	a.merge(r, b.prev)
	a.merge(r, a.blocks[r].next)
	a.insert(r)
}

// merge lets a block absorb a free neighbour: try_merge_blocks. Mapped and unmapped blocks do not mix.
func (a *Allocator) merge(r, neighbour ref) {
	if neighbour == 0 {
		return
	}
	b, n := &a.blocks[r], &a.blocks[neighbour]
	if n.state != free || n.mapped != b.mapped {
		return
	}
	if n.mapped {
		a.remove(neighbour)
	} else {
		a.removeUnmapped(neighbour)
	}
	if b.prev == neighbour {
		b.addr = n.addr
		b.prev = n.prev
		if b.prev != 0 {
			a.blocks[b.prev].next = r
		} else {
			a.segments[b.segment].first = r
		}
	} else {
		b.next = n.next
		if b.next != 0 {
			a.blocks[b.next].prev = r
		}
	}
	b.size += n.size
	a.dropBlock(neighbour)
}
