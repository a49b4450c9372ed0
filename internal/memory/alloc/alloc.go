// Package alloc is an exact model of PyTorch's CUDA caching allocator (the native backend).
//
// It takes a Policy (settings, PyTorch version, limits, the order of device addresses) and a stream of requests,
// one by one (Malloc, Free, …) or as a whole tape (Run) and returns the state the real allocator would have
// after each of them: addresses, blocks, segments, bytes requested, allocated, active and reserved, and the
// request that fails. It refuses settings that the version does not know (ParseConf) and identifiers that
// are not dense (Run).
//
// It is written to be read beside c10/cuda/CUDACachingAllocator.cpp; each file holds one verb of it. What
// differs between releases asks package torch. Not modelled: several threads allocating during one
// cudaMalloc, free-memory callbacks, pools with an allocator of their own, use_on_oom and no_split pools.
package alloc

import (
	"github.com/plimsoll/plimsoll/internal/torch"
	"github.com/plimsoll/plimsoll/internal/units"
)

// Policy is everything that decides what the allocator makes of a request. The zero Policy is PyTorch's
// default on a device without end.
type Policy struct {
	Conf  Conf
	Torch torch.Version

	// Cap is the limit of torch.cuda.set_per_process_memory_fraction in bytes; 0: none. Settings with
	// per_process_memory_fraction below 1 set it to that share of Total.
	Cap units.Bytes
	// Device is what the device itself can give this process; 0: any amount.
	Device units.Bytes
	// Total is the size of the whole device; it bounds expandable segments. 0: 1 TiB.
	Total units.Bytes

	// Addresses places new segments; nil: Decreasing, what the driver does.
	Addresses AddressSource
	// Streams are the stream handles by index, which order the release of segments; nil: by index.
	Streams []uint64
	// Pools are the ids of private pools by index; nil: every private pool is a graph's.
	Pools [][2]uint64
	// IDs is how many ids will be used, so that room is made for them at once; 0: not known.
	IDs int
	// OnSegment, where set, is told of every segment taken from and given back to the device.
	OnSegment func(SegmentEvent)
}

// Constants of c10/core/AllocatorConfig.h (2.11) and CUDACachingAllocator.cpp (before).
const (
	minBlock      = 512                 // kMinBlockSize
	smallSize     = 1 * units.MiB       // kSmallSize: the largest request of the small pool
	smallBuffer   = 2 * units.MiB       // kSmallBuffer
	largeBuffer   = 20 * units.MiB      // kLargeBuffer
	minLargeAlloc = 10 * units.MiB      // kMinLargeAlloc
	roundLarge    = 2 * units.MiB       // kRoundLarge
	largestAsk    = 1 << 20 * units.TiB // one exbibyte, refused outright
)

// ref names a block in the slab; 0 is no block.
type ref int32

type state uint8

const (
	free      state = iota // in its pool's free set, or unmapped
	allocated              // handed out
	pending                // freed by the program, still in use on another stream
)

// block is a part of a segment: PyTorch's struct Block.
type block struct {
	addr       uint64
	size       units.Bytes
	requested  units.Bytes
	prev, next ref // neighbours in the segment, by address
	before     ref // in the list of pending blocks
	after      ref
	id         uint32
	born       uint64 // the pool's count of searches when the block entered the free set
	segment    int32
	pool       int32
	stream     uint16
	state      state
	mapped     bool // false: address space of an expandable segment without memory
}

// split tells whether the block is only a part of its segment.
func (b *block) split() bool { return b.prev != 0 || b.next != 0 }

// segment is a piece of device memory or, expandable, of address space.
type segment struct {
	addr       uint64
	size       units.Bytes // of the address range
	mapped     units.Bytes // bytes that hold memory
	first      ref
	order      uint32 // counts segments as they are created
	pool       int32
	stream     uint16
	expandable bool
	live       bool
}

// pool is one BlockPool: the small or the large half of the default or a private pool.
type pool struct {
	small    bool
	private  uint16
	freeable bool      // a private pool nothing refers to any more
	searches uint64    // get_free_blocks_call_count
	free     []freeSet // by stream: mapped blocks nobody uses
	unmapped []freeSet // by stream: address space without memory, by address
}

// Allocator is the state of one device's caching allocator.
type Allocator struct {
	policy   Policy
	conf     Conf // resolved: no zero values that mean a default
	cap      units.Bytes
	blocks   []block
	spare    []ref // unused entries of blocks
	segments []segment
	vacant   []int32 // unused entries of segments
	pools    []pool  // 2i: small, 2i+1: large half of pool i
	live     []ref   // by id
	pending  ref     // first of the list of pending blocks
	last     ref
	created  uint32 // segments so far
	byAge    bool   // 2.13 and later: among equal free blocks the oldest segment wins, before the lowest address
	placed   bool   // somebody else decides where segments lie
	stats    Stats
	scratch  []ref
	order    []int32
	failed   Failure
}

// New gives an allocator that holds nothing yet.
func New(p Policy) *Allocator {
	// About an eighth of what a training run ever asks for is there at a time.
	a := &Allocator{policy: p, blocks: make([]block, 1, max(1024, p.IDs/8)), segments: make([]segment, 0, max(64, p.IDs/64)), live: make([]ref, p.IDs)}
	a.conf = p.Conf.resolved()
	if a.policy.Total == 0 {
		a.policy.Total = units.TiB
	}
	a.placed = p.Addresses != nil
	if !a.placed {
		a.policy.Addresses = Decreasing()
	}
	a.policy.Torch = p.Torch.OrLatest()
	a.byAge = torch.FreeBlocksByAge.Has(a.policy.Torch)
	a.cap = a.policy.capacity(a.conf)
	a.poolOf(0, true)
	return a
}

// capacity is the cap in force. Source: setMemoryFraction; the product is truncated up to 2.12, rounded
// from 2.13 on.
func (p *Policy) capacity(c Conf) units.Bytes {
	if p.Cap > 0 || c.Fraction >= 1 || p.Total <= 0 {
		return p.Cap
	}
	exact := c.Fraction * float64(p.Total)
	if torch.RoundedFraction.Has(p.Torch) {
		exact += 0.5
	}
	return units.Bytes(exact)
}

// poolOf is the index of the small or large half of pool i, made where it is new.
func (a *Allocator) poolOf(i uint16, small bool) int32 {
	for n := len(a.pools) / 2; n <= int(i); n++ {
		a.pools = append(a.pools, pool{small: true, private: uint16(n)}, pool{private: uint16(n)})
	}
	if small {
		return 2 * int32(i)
	}
	return 2*int32(i) + 1
}

// expandable tells whether requests of a pool go to expandable segments. Source: is_expandable_segments_active;
// 2.1 to 2.4 never used them for private pools.
func (a *Allocator) expandable(p *pool) bool {
	return a.conf.Expandable && (p.private == 0 || torch.ExpandableGraphPools.Has(a.policy.Torch))
}

// newBlock takes a block from the slab.
func (a *Allocator) newBlock(b block) ref {
	if n := len(a.spare); n > 0 {
		r := a.spare[n-1]
		a.spare = a.spare[:n-1]
		a.blocks[r] = b
		return r
	}
	a.blocks = append(a.blocks, b)
	return ref(len(a.blocks) - 1)
}

func (a *Allocator) dropBlock(r ref) { a.spare = append(a.spare, r) }

// newSegment registers a segment and gives its index.
func (a *Allocator) newSegment(s segment) int32 {
	s.order, s.live = a.created, true
	a.created++
	if n := len(a.vacant); n > 0 {
		i := a.vacant[n-1]
		a.vacant = a.vacant[:n-1]
		a.segments[i] = s
		return i
	}
	a.segments = append(a.segments, s)
	return int32(len(a.segments) - 1)
}

func (a *Allocator) dropSegment(i int32) {
	a.segments[i].live = false
	a.vacant = append(a.vacant, i)
}

// insert puts a block into its pool's free set. Its age starts again: BlockPool::insert_into_blocks.
func (a *Allocator) insert(r ref) {
	b := &a.blocks[r]
	p := &a.pools[b.pool]
	b.born = p.searches
	freeOf(&p.free, b.stream).insert(a.itemOf(r))
}

func (a *Allocator) remove(r ref) {
	b := &a.blocks[r]
	a.pools[b.pool].free[b.stream].remove(a.itemOf(r))
}

// itemOf is the block's place in the order of its free set: size, then address; from 2.13 on segments in the
// order they were created come before the address (BlockComparatorSize).
func (a *Allocator) itemOf(r ref) item {
	b := &a.blocks[r]
	it := item{b.size, rank{addr: b.addr, block: r}}
	if a.byAge {
		it.order = a.segments[b.segment].order
	}
	return it
}

func (a *Allocator) insertUnmapped(r ref) {
	b := &a.blocks[r]
	freeOf(&a.pools[b.pool].unmapped, b.stream).insert(item{rank: rank{addr: b.addr, block: r}})
}

func (a *Allocator) removeUnmapped(r ref) {
	b := &a.blocks[r]
	a.pools[b.pool].unmapped[b.stream].remove(item{rank: rank{addr: b.addr, block: r}})
}

// freeOf is the set of one stream, made where it is new.
func freeOf(sets *[]freeSet, stream uint16) *freeSet {
	for len(*sets) <= int(stream) {
		*sets = append(*sets, freeSet{})
	}
	return &(*sets)[stream]
}
