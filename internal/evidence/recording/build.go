package recording

import (
	"math"

	"github.com/plimsoll/plimsoll/internal/memory/tape"
	"github.com/plimsoll/plimsoll/internal/units"
	"github.com/plimsoll/plimsoll/snapshot"
)

// builder makes a Recording in two passes over the history: one finds what was alive before it, one numbers and writes the events.
type builder struct {
	r       *Recording
	live    *addresses // ID by address
	pending *addresses // ID by address, of deferred frees that have not completed
	streams map[uint64]uint16
	pools   map[[2]int64]uint16
	regions []region // where each pool's memory lies, for events that do not name their pool
}

func newBuilder(r *Recording) *builder {
	b := &builder{r: r, live: newAddresses(), pending: newAddresses(), streams: map[uint64]uint16{0: 0}, pools: map[[2]int64]uint16{{}: 0}}
	r.Tape.Streams = []uint64{0}
	r.Tape.Pools = [][2]uint64{{}}
	b.regions = b.privateRegions()
	return b
}

// reserved finds what was reserved by PyTorch at the start: what is held at the end, less what was obtained on the
// way, plus what was returned.
func (b *builder) reserved() {
	var held int64
	for i := range b.r.Snapshot.Segments {
		if s := &b.r.Snapshot.Segments[i]; s.Device == b.r.Device {
			held += s.TotalSize
		}
	}
	t := b.r.Trace
	for i, a := range t.Action {
		switch a {
		case snapshot.ActionSegmentAlloc, snapshot.ActionSegmentMap:
			held -= t.Size[i]
		case snapshot.ActionSegmentFree, snapshot.ActionSegmentUnmap:
			held += t.Size[i]
		}
	}
	b.r.Reserved = units.Bytes(max(0, held))
}

// initial finds the allocations alive before the first event: freed in the history without having been allocated in it, or active in
// the final segments without having been allocated since.
func (b *builder) initial() {
	t := b.r.Trace
	open := newAddresses() // event of what was allocated in the history and not yet freed in it
	freeSites := false     // frees carry the stack of the free (context="all"), not of the allocation
	for i, a := range t.Action {
		switch a {
		case snapshot.ActionAlloc:
			open.put(t.Addr[i], uint32(i))
		case snapshot.ActionFreeRequested:
			if at, ok := open.get(t.Addr[i]); ok {
				freeSites = freeSites || t.Stack[at] != t.Stack[i]
			} else {
				b.addInitial(t.Addr[i], t.Size[i], t.Stream[i], t.Stack[i], b.poolOf(i))
				open.put(t.Addr[i], uint32(i))
			}
		case snapshot.ActionFreeCompleted:
			if !open.has(t.Addr[i]) {
				b.addInitial(t.Addr[i], t.Size[i], t.Stream[i], t.Stack[i], b.poolOf(i))
			}
			open.drop(t.Addr[i])
		}
	}
	if freeSites {
		clear(b.r.Stack)
	}
	for i := range b.r.Snapshot.Segments {
		s := &b.r.Snapshot.Segments[i]
		if s.Device != b.r.Device {
			continue
		}
		for _, block := range s.Blocks {
			if block.State != snapshot.Inactive && !open.has(block.Address) {
				b.addFinal(s, block)
			}
		}
	}
	b.r.Complete = len(b.r.Tape.Initial) == 0 && b.r.Reserved == 0
}

func (b *builder) addInitial(addr uint64, size int64, stream uint16, stack snapshot.StackID, pool uint16) {
	id := uint32(len(b.r.Tape.Initial))
	b.r.Tape.Initial = append(b.r.Tape.Initial, tape.Live{ID: id, Stream: b.stream(b.r.Trace.Streams[stream]), Pool: pool, Size: units.Bytes(size)})
	b.register(id, addr, stack, 0)
}

func (b *builder) addFinal(s *snapshot.Segment, block snapshot.Block) {
	id := uint32(len(b.r.Tape.Initial))
	size := block.Requested
	if size == 0 { // PyTorch 1.13 does not say how much was asked for
		size = block.Size
	}
	b.r.Tape.Initial = append(b.r.Tape.Initial, tape.Live{ID: id, Stream: b.stream(s.Stream), Pool: b.pool(s.PoolID), Size: units.Bytes(size)})
	b.register(id, block.Address, block.Stack, 0)
}

func (b *builder) register(id uint32, addr uint64, stack snapshot.StackID, born uint32) {
	r := b.r
	r.Addr = append(r.Addr, addr)
	r.Stack = append(r.Stack, stack)
	r.Born = append(r.Born, born)
	r.Died = append(r.Died, NeverFreed)
	b.live.put(addr, id)
}

// events writes the tape.
func (b *builder) events() {
	r, t := b.r, b.r.Trace
	b.grow()
	for i, a := range t.Action {
		switch a {
		case snapshot.ActionAlloc:
			b.alloc(i)
		case snapshot.ActionFreeRequested:
			b.free(i)
		case snapshot.ActionFreeCompleted:
			b.complete(i)
		case snapshot.ActionOOM:
			b.emit(i, tape.Event{Kind: tape.OOM, Stream: b.stream(t.Streams[t.Stream[i]]), Size: units.Bytes(t.Size[i])})
		}
	}
	r.Tape.Allocs = len(r.Addr)
}

// grow makes room for all events at once: a million appends would leave as much garbage again.
func (b *builder) grow() {
	allocs, events := 0, 0
	for _, a := range b.r.Trace.Action {
		switch a {
		case snapshot.ActionAlloc:
			allocs++
			events++
		case snapshot.ActionFreeRequested, snapshot.ActionOOM:
			events++
		}
	}
	r, n := b.r, len(b.r.Addr)
	r.Addr = append(make([]uint64, 0, n+allocs), r.Addr...)
	r.Stack = append(make([]snapshot.StackID, 0, n+allocs), r.Stack...)
	r.Born = append(make([]uint32, 0, n+allocs), r.Born...)
	r.Died = append(make([]uint32, 0, n+allocs), r.Died...)
	r.Tape.Events = make([]tape.Event, 0, events)
	r.Event = make([]uint32, 0, events)
}

func (b *builder) emit(i int, e tape.Event) uint32 {
	b.r.Tape.Events = append(b.r.Tape.Events, e)
	b.r.Event = append(b.r.Event, uint32(i))
	return uint32(len(b.r.Event) - 1)
}

func (b *builder) alloc(i int) {
	t := b.r.Trace
	if b.live.has(t.Addr[i]) {
		b.r.Contradictions++
	}
	id := uint32(len(b.r.Addr))
	at := b.emit(i, tape.Event{Kind: tape.Alloc, Stream: b.stream(t.Streams[t.Stream[i]]), Pool: b.poolOf(i), ID: id, Size: units.Bytes(t.Size[i])})
	b.register(id, t.Addr[i], t.Stack[i], at)
}

// free writes a Free. PyTorch records free_completed directly behind free_requested unless another stream still
// uses the block (CUDACachingAllocator.cpp, free).
func (b *builder) free(i int) {
	t := b.r.Trace
	id, ok := b.live.take(t.Addr[i])
	if !ok {
		b.r.Contradictions++
		return
	}
	atOnce := i+1 < t.Len() && t.Action[i+1] == snapshot.ActionFreeCompleted && t.Addr[i+1] == t.Addr[i]
	b.r.Died[id] = b.emit(i, tape.Event{Kind: tape.Free, Deferred: !atOnce, Stream: b.stream(t.Streams[t.Stream[i]]), Pool: b.poolOf(i), ID: id, Size: b.given(id, i)})
	b.pending.put(t.Addr[i], id)
}

func (b *builder) complete(i int) {
	t := b.r.Trace
	if id, ok := b.pending.take(t.Addr[i]); ok {
		if !(i > 0 && t.Action[i-1] == snapshot.ActionFreeRequested && t.Addr[i-1] == t.Addr[i]) {
			b.emit(i, tape.Event{Kind: tape.FreeCompleted, Stream: b.stream(t.Streams[t.Stream[i]]), Pool: b.poolOf(i), ID: id, Size: b.r.Size(int(id))})
		}
		return
	}
	// The request came before the history began, or such events were not recorded.
	id, ok := b.live.take(t.Addr[i])
	if !ok {
		b.r.Contradictions++
		return
	}
	b.r.Died[id] = b.emit(i, tape.Event{Kind: tape.Free, Stream: b.stream(t.Streams[t.Stream[i]]), Pool: b.poolOf(i), ID: id, Size: b.given(id, i)})
}

// given is what a free gives back: what was asked for. A free that names another size contradicts its allocation.
func (b *builder) given(id uint32, i int) units.Bytes {
	size := b.r.Size(int(id))
	if units.Bytes(b.r.Trace.Size[i]) != size {
		b.r.Contradictions++
	}
	return size
}

func (b *builder) stream(handle uint64) uint16 {
	if id, ok := b.streams[handle]; ok {
		return id
	}
	if len(b.streams) > math.MaxUint16 {
		return 0
	}
	id := uint16(len(b.r.Tape.Streams))
	b.streams[handle] = id
	b.r.Tape.Streams = append(b.r.Tape.Streams, handle)
	return id
}

func (b *builder) pool(id [2]int64) uint16 {
	if n, ok := b.pools[id]; ok {
		return n
	}
	if len(b.pools) > math.MaxUint16 {
		return 0
	}
	n := uint16(len(b.r.Tape.Pools))
	b.pools[id] = n
	b.r.Tape.Pools = append(b.r.Tape.Pools, [2]uint64{uint64(id[0]), uint64(id[1])})
	return n
}
