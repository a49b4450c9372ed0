package replay

import (
	"strings"

	"github.com/plimsoll/plimsoll/internal/units"
	"github.com/plimsoll/plimsoll/snapshot"
)

// run is a maximal run of segment events in a history. Deferred frees that complete within it belong to it: they
// are what synchronising completes.
type run struct {
	first, end int // trace events [first, end)
	next       int // the event after the run, or the length of the history
	releases   bool
	grows      bool
	// taken is what the run took from the device, before what it held at its start.
	before, taken units.Bytes
	released      units.Bytes
}

func isSegment(a snapshot.Action) bool { return isGrowth(a) || isRelease(a) }

func isGrowth(a snapshot.Action) bool {
	return a == snapshot.ActionSegmentAlloc || a == snapshot.ActionSegmentMap
}

func isRelease(a snapshot.Action) bool {
	return a == snapshot.ActionSegmentFree || a == snapshot.ActionSegmentUnmap
}

// segmentRuns finds the runs of a history.
func segmentRuns(t *snapshot.Trace) []run {
	var runs []run
	for i := 0; i < t.Len(); i++ {
		if !isSegment(t.Action[i]) {
			continue
		}
		r := run{first: i, end: i}
		for i < t.Len() && (isSegment(t.Action[i]) || deferredCompletion(t, i)) {
			if isGrowth(t.Action[i]) {
				r.grows = true
				r.taken += units.Bytes(t.Size[i])
			} else if isRelease(t.Action[i]) {
				r.releases = true
				r.released += units.Bytes(t.Size[i])
			}
			i++
			if isSegment(t.Action[i-1]) {
				r.end = i
			}
		}
		r.next = i
		runs = append(runs, r)
	}
	return runs
}

// deferredCompletion tells whether event i completes a free that was requested earlier.
func deferredCompletion(t *snapshot.Trace, i int) bool {
	if t.Action[i] != snapshot.ActionFreeCompleted {
		return false
	}
	return i == 0 || t.Action[i-1] != snapshot.ActionFreeRequested || t.Addr[i-1] != t.Addr[i]
}

// serves tells whether a run led to a request, served or not.
func (r *run) serves(t *snapshot.Trace) bool {
	return r.next < t.Len() && (t.Action[r.next] == snapshot.ActionAlloc || t.Action[r.next] == snapshot.ActionOOM)
}

// cause is who gave memory back.
type cause uint8

const (
	unknownCause cause = iota
	calledByUser       // torch.cuda.empty_cache()
	recovery           // the request that follows made room for itself, or collected garbage
)

// cause tells where the releases of a run came from, as far as the history says. A request that does not follow, or that
// was served from the cache, released nothing. What a request releases carries its own stack, and what empty_cache releases
// carries another or none (maybeGatherContext in CUDACachingAllocator.cpp: malloc gathers stacks from the level "state"
// on, emptyCache only at "all").
func (r *run) cause(s *snapshot.Snapshot, t *snapshot.Trace) cause {
	if !r.serves(t) {
		return calledByUser
	}
	if t.Action[r.next] == snapshot.ActionAlloc && !r.grows {
		return calledByUser
	}
	for i := r.first; i < r.end; i++ {
		if !isRelease(t.Action[i]) {
			continue
		}
		switch stack := t.Stack[i]; {
		case namesEmptyCache(s, stack):
			return calledByUser
		case t.Stack[r.next] == 0:
			return unknownCause
		case stack == t.Stack[r.next]:
			return recovery
		}
		return calledByUser
	}
	return unknownCause
}

func namesEmptyCache(s *snapshot.Snapshot, id snapshot.StackID) bool {
	for _, f := range s.Stacks.Stack(id) {
		name := s.Stacks.Frames[f].Function
		if name == "empty_cache" || strings.Contains(name, "emptyCache") {
			return true
		}
	}
	return false
}
