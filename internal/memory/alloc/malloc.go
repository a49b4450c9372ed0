package alloc

import (
	"github.com/plimsoll/plimsoll/internal/torch"
	"github.com/plimsoll/plimsoll/internal/units"
)

// request is one call of malloc on its way through the allocator: PyTorch's AllocParams.
type request struct {
	size    units.Bytes // rounded
	segment units.Bytes // what a new segment for it would take: alloc_size
	pool    int32
	stream  uint16
	private uint16
}

// Malloc asks for size bytes on a stream, from the default pool (0) or a private one, under an id that is not
// in use; ids index a table, so they should be dense. It reports false where PyTorch raises OutOfMemoryError;
// the state is then what the failed attempts left. A request of no bytes never reaches PyTorch's allocator.
func (a *Allocator) Malloc(id uint32, size units.Bytes, stream, pool uint16) bool {
	if size <= 0 {
		return true
	}
	if size >= largestAsk {
		return a.fail(request{size: size, segment: size})
	}
	if a.blockOf(id) != 0 { // a caller's mistake; forgetting the old block would lose its memory for good
		a.Free(id, false)
		a.FreeCompleted(id)
	}
	r := a.request(size, stream, pool)
	b := a.search(&r)
	if b == 0 {
		b = a.grow(&r)
	}
	if b == 0 {
		return a.fail(r)
	}
	b = a.cut(b, &r)
	blk := &a.blocks[b]
	blk.state, blk.id, blk.requested = allocated, id, size
	a.bind(id, b)
	a.stats.handedOut(blk.size, size)
	return true
}

func (a *Allocator) request(size units.Bytes, stream, private uint16) request {
	rounded := a.Rounded(size)
	return request{
		size: rounded, segment: a.conf.segmentSize(rounded),
		pool: a.poolOf(private, rounded <= smallSize), stream: stream, private: private,
	}
}

func (a *Allocator) fail(r request) bool {
	a.stats.OOMs++
	a.failed = Failure{Rounded: r.size, Segment: r.segment, Stats: a.stats}
	return false
}

func (a *Allocator) bind(id uint32, b ref) {
	if int(id) >= len(a.live) {
		a.live = append(a.live, make([]ref, int(id)+1-len(a.live))...)
	}
	a.live[id] = b
}

// Address is where the block of a live id lies; 0 where the id holds none.
func (a *Allocator) Address(id uint32) uint64 {
	if b := a.blockOf(id); b != 0 {
		return a.blocks[b].addr
	}
	return 0
}

func (a *Allocator) blockOf(id uint32) ref {
	if int(id) >= len(a.live) {
		return 0
	}
	return a.live[id]
}

// grow gets a block that no search found: PyTorch's chain of attempts in malloc.
func (a *Allocator) grow(r *request) ref {
	if a.collects() {
		a.collect()
	}
	if b := a.newBlockFromDevice(r); b != 0 {
		return b
	}
	if a.conf.ThrowOnOOM && a.overCap(r) { // 2.12: rejected without recovery
		return 0
	}
	if a.releaseOversize(r) {
		if b := a.newBlockFromDevice(r); b != 0 {
			return b
		}
	}
	if a.capturing(r) {
		return 0
	}
	a.releaseCached()
	a.stats.Retries++
	return a.newBlockFromDevice(r)
}

// capturing tells whether recovery may not empty the cache: up to 2.12 inside any scope of a private pool,
// from 2.13 on (pytorch pull request 175374) only while a graph is captured, whose pools are (k,0).
func (a *Allocator) capturing(r *request) bool {
	if r.private == 0 {
		return false
	}
	if !torch.PoolScopesRecover.Has(a.policy.Torch) || int(r.private) >= len(a.policy.Pools) {
		return true
	}
	return a.policy.Pools[r.private][0] != 0
}
