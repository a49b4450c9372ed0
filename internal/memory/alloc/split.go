package alloc

import "github.com/plimsoll/plimsoll/internal/torch"

// cut hands out the front of a block; what remains goes back to the free set: alloc_found_block.
func (a *Allocator) cut(r ref, q *request) ref {
	if !a.splits(r, q) {
		return r
	}
	rest := &a.blocks[r]
	front := a.newBlock(block{
		addr: rest.addr, size: q.size, prev: rest.prev, next: r,
		segment: rest.segment, pool: rest.pool, stream: rest.stream, mapped: true,
	})
	rest = &a.blocks[r] // the slab may have moved
	if rest.prev != 0 {
		a.blocks[rest.prev].next = front
	} else {
		a.segments[rest.segment].first = front
	}
	rest.prev = front
	rest.addr += uint64(q.size)
	rest.size -= q.size
	a.insert(r)
	return front
}

// splits decides whether the rest of a block is worth keeping: should_split. Small and expandable pools keep
// 512 bytes, large ones only more than 1 MiB. From 2.1 to 2.9 the test asked the setting, not the pool.
func (a *Allocator) splits(r ref, q *request) bool {
	p := &a.pools[q.pool]
	rest := a.blocks[r].size - q.size
	if p.small || a.expandable(p) || a.conf.Expandable && !torch.SplitAsksThePool.Has(a.policy.Torch) {
		return rest >= minBlock
	}
	return q.size < a.conf.MaxSplit && rest > smallSize
}
