package replay

import (
	"fmt"

	"github.com/plimsoll/plimsoll/internal/memory/alloc"
	"github.com/plimsoll/plimsoll/internal/memory/tape"
	"github.com/plimsoll/plimsoll/internal/units"
	"github.com/plimsoll/plimsoll/snapshot"
)

// validation is one replay of a recording under its own settings and one hypothesis about its limit.
type validation struct {
	c     *Case
	a     *alloc.Allocator
	feed  *feed
	limit Limit
	open  *run // whose request is still to come
	f     Fidelity
	tape  []tape.Event // with calls of empty_cache
	event []uint32
	calls int
	// allocatedAt is what was allocated after the event of interest.
	allocatedAt units.Bytes
	// impatient stops at the first divergence; tooLow then tells that the model gave memory back where the recorded run
	// did not, as under a cap that is too low.
	impatient bool
	tooLow    bool
}

// validate replays the recording; the result is in the validation.
func (c *Case) validate(limit Limit, impatient bool) *validation {
	v := &validation{c: c, limit: limit, impatient: impatient}
	v.start()
	v.until(c.Recording.Trace.Len())
	v.f.SegmentMatches = v.feed.matched
	v.f.ReservedPeakReplayed = v.a.Stats().Peak.Reserved
	v.final()
	return v
}

func (v *validation) start() {
	r := v.c.Recording
	v.f = Fidelity{Events: r.Trace.Len(), FirstDivergence: -1}
	v.feed = &feed{trace: r.Trace, other: alloc.Decreasing()}
	v.a = alloc.New(alloc.Policy{
		Conf: v.c.Conf, Torch: v.c.Torch, Cap: v.limit.Cap, Device: v.limit.Device,
		Addresses: v.feed, Streams: r.Tape.Streams, Pools: r.Tape.Pools, IDs: r.Tape.Allocs + 1, OnSegment: v.feed.told,
	})
	if !v.impatient {
		v.tape = make([]tape.Event, 0, len(r.Tape.Events)+len(v.c.runs))
		v.event = make([]uint32, 0, cap(v.tape))
	}
	if err := v.a.Restore(v.c.start); err != nil {
		v.diverge(0, err.Error())
	}
}

// until replays the events of the history up to and without event end, and the one that event belongs to.
func (v *validation) until(end int) {
	r, runs := v.c.Recording, v.c.runs
	for k := range r.Tape.Events {
		at := int(r.Event[k])
		for len(runs) > 0 && runs[0].first < at {
			v.enter(&runs[0], k)
			runs = runs[1:]
		}
		v.step(k)
		if k+1 == v.c.at {
			v.allocatedAt = v.a.Stats().Allocated
		}
		if v.open != nil && at >= v.open.next {
			v.leave(at)
		}
		if v.feed.differs != "" {
			v.diverge(at, v.feed.differs)
			v.feed.differs = ""
		}
		if v.impatient && v.f.FirstDivergence >= 0 || at >= end {
			return
		}
	}
	for i := range runs {
		v.enter(&runs[i], len(r.Tape.Events))
	}
	v.leave(r.Trace.Len() - 1)
}

// enter handles a run of segment events: a call of empty_cache happens now, anything else is left to the request
// that follows at tape event k or soon after.
func (v *validation) enter(r *run, k int) {
	v.leave(r.first)
	v.feed.open(r)
	v.open = r
	if r.releases && v.called(r, k) {
		v.a.EmptyCache()
		v.calls++
		v.tape = append(v.tape, tape.Event{Kind: tape.EmptyCache})
		v.event = append(v.event, uint32(r.first))
	}
	if !r.serves(v.c.Recording.Trace) {
		v.leave(r.first)
	}
}

func (v *validation) leave(at int) {
	if v.open == nil {
		return
	}
	v.feed.close()
	v.open = nil
	if v.feed.differs != "" {
		v.diverge(at, v.feed.differs)
		v.feed.differs = ""
	}
}

// called tells whether the releases of a run came from empty_cache: certainly, or because the request that follows
// had no reason to release anything.
func (v *validation) called(r *run, k int) bool {
	c := v.c
	if known := r.cause(c.Recording.Snapshot, c.Recording.Trace); known != unknownCause {
		return known == calledByUser
	}
	for k < len(c.Recording.Event) && int(c.Recording.Event[k]) < r.next {
		k++
	}
	if k == len(c.Recording.Event) {
		return true
	}
	e := &c.Recording.Tape.Events[k]
	if v.a.Fits(e.Size, e.Stream, e.Pool) {
		return true
	}
	reserved := v.a.Stats().Reserved
	if v.limit.Cap > 0 && reserved > threshold(c.Conf, v.limit.Cap) {
		return false
	}
	more := v.a.SegmentFor(e.Size)
	return (v.limit.Cap == 0 || reserved+more <= v.limit.Cap) && (v.limit.Device == 0 || reserved+more <= v.limit.Device)
}

// threshold is where garbage collection begins; without one it never does.
func threshold(c alloc.Conf, limit units.Bytes) units.Bytes {
	if c.GarbageCollection <= 0 {
		return limit
	}
	return units.Bytes(c.GarbageCollection * float64(limit))
}

func (v *validation) step(k int) {
	r := v.c.Recording
	e := &r.Tape.Events[k]
	at := int(r.Event[k])
	v.feed.now = at
	if !v.impatient {
		v.tape = append(v.tape, *e)
		v.event = append(v.event, uint32(at))
	}
	switch e.Kind {
	case tape.Alloc:
		v.alloc(e, at)
	case tape.Free:
		v.a.Free(e.ID, e.Deferred)
	case tape.FreeCompleted:
		v.a.FreeCompleted(e.ID)
	case tape.OOM:
		v.f.OOMs++
		extra := uint32(r.Tape.Allocs)
		if !v.a.Malloc(extra, e.Size, e.Stream, e.Pool) {
			v.f.OOMsSeen++
			return
		}
		v.a.Free(extra, false)
		v.diverge(at, fmt.Sprintf("the recorded request for %v failed, the model served it", e.Size))
	}
}

func (v *validation) alloc(e *tape.Event, at int) {
	v.f.Allocs++
	released := v.a.Stats().DeviceFrees
	served := v.a.Malloc(e.ID, e.Size, e.Stream, e.Pool)
	want, got := v.c.Recording.Addr[e.ID], v.a.Address(e.ID)
	if served && got == want {
		v.f.AddressMatches++
	}
	if v.f.FirstDivergence < 0 {
		v.tooLow = v.a.Stats().DeviceFrees > released
	}
	switch {
	case !served:
		v.diverge(at, fmt.Sprintf("the recorded request for %v was served, the model ran out of memory", e.Size))
	case got != want:
		v.diverge(at, fmt.Sprintf("the recorded block of %v lies at %#x, the model's at %#x", e.Size, want, got))
	}
}

func (v *validation) diverge(at int, what string) {
	if v.f.FirstDivergence < 0 {
		v.f.FirstDivergence, v.f.Divergence = at, what
	}
}

// final compares the active blocks at the end. A dump takes the history first and the state after it, so that a
// second thread may have gone on in between.
func (v *validation) final() {
	model := map[uint64]alloc.BlockState{}
	for _, s := range v.a.Segments() {
		for _, b := range s.Blocks {
			if !b.Free {
				model[b.Address] = b
			}
		}
	}
	for _, s := range v.c.Recording.Snapshot.Segments {
		if s.Device != v.c.Recording.Device {
			continue
		}
		for _, b := range s.Blocks {
			if b.State == snapshot.Inactive {
				continue
			}
			v.f.FinalBlocks++
			m, ok := model[b.Address]
			if ok && m.Size == units.Bytes(b.Size) && m.Pending == (b.State == snapshot.PendingFree) {
				v.f.FinalMatches++
			}
		}
	}
}
