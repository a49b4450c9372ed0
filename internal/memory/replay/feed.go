package replay

import (
	"fmt"

	"github.com/plimsoll/plimsoll/internal/memory/alloc"
	"github.com/plimsoll/plimsoll/internal/units"
	"github.com/plimsoll/plimsoll/snapshot"
)

// feed gives the model the addresses the driver gave the recorded run, and compares what the model takes and gives
// back with what was recorded. Only the events between at and end may be answered by the request that runs.
type feed struct {
	trace   *snapshot.Trace
	at, end int
	now     int // the event that runs
	matched int
	differs string // what differed first since the last look
	other   alloc.AddressSource
}

var recordedKind = map[snapshot.Action]alloc.SegmentKind{
	snapshot.ActionSegmentAlloc: alloc.SegmentAlloc, snapshot.ActionSegmentFree: alloc.SegmentFree,
	snapshot.ActionSegmentMap: alloc.SegmentMap, snapshot.ActionSegmentUnmap: alloc.SegmentUnmap,
}

var kindNames = map[alloc.SegmentKind]string{
	alloc.SegmentAlloc: "took a segment", alloc.SegmentFree: "gave back a segment",
	alloc.SegmentMap: "mapped pages", alloc.SegmentUnmap: "unmapped pages",
}

// peek finds the next recorded segment event of the window.
func (f *feed) peek() bool {
	for f.at < f.end && !isSegment(f.trace.Action[f.at]) {
		f.at++
	}
	return f.at < f.end
}

// Segment places a segment where the recorded run's lay.
func (f *feed) Segment(size units.Bytes) uint64 {
	if f.peek() && f.trace.Action[f.at] == snapshot.ActionSegmentAlloc && units.Bytes(f.trace.Size[f.at]) == size {
		return f.trace.Addr[f.at]
	}
	return f.other.Segment(size)
}

// Reserve places an expandable segment where its first page was mapped: at its base. Where the device had no page left
// for it, that is the next page mapped at all.
func (f *feed) Reserve(size units.Bytes) uint64 {
	if f.peek() && f.trace.Action[f.at] == snapshot.ActionSegmentMap {
		return f.trace.Addr[f.at]
	}
	for i := f.now; i < f.trace.Len(); i++ {
		if f.trace.Action[i] == snapshot.ActionSegmentMap {
			return f.trace.Addr[i]
		}
	}
	return f.other.Reserve(size)
}

// Release does nothing: what the driver does with addresses given back shows in the next one it gives.
func (f *feed) Release(uint64, units.Bytes) {}

// told compares a segment event of the model with the recorded one.
func (f *feed) told(e alloc.SegmentEvent) {
	if !f.peek() {
		f.differ(fmt.Sprintf("the model %s of %v, the recorded run did not", kindNames[e.Kind], e.Size))
		return
	}
	kind, addr, size := recordedKind[f.trace.Action[f.at]], f.trace.Addr[f.at], units.Bytes(f.trace.Size[f.at])
	if kind != e.Kind || addr != e.Address || size != e.Size {
		f.differ(fmt.Sprintf("the model %s of %v at %#x, the recorded run %s of %v at %#x",
			kindNames[e.Kind], e.Size, e.Address, kindNames[kind], size, addr))
		return
	}
	f.matched++
	f.at++
}

func (f *feed) differ(what string) {
	if f.differs == "" {
		f.differs = what
	}
}

// open lets the events of a run be answered.
func (f *feed) open(r *run) { f.at, f.end = r.first, r.end }

// close notes recorded events that the model had no answer to.
func (f *feed) close() {
	if f.peek() {
		kind := recordedKind[f.trace.Action[f.at]]
		f.differ(fmt.Sprintf("the recorded run %s of %v, the model did not", kindNames[kind], units.Bytes(f.trace.Size[f.at])))
	}
	f.at, f.end = 0, 0
}
