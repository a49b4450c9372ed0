package alloc

import (
	"fmt"

	"github.com/plimsoll/plimsoll/internal/memory/tape"
	"github.com/plimsoll/plimsoll/internal/units"
)

// Result is what a whole tape came to.
type Result struct {
	Stats  Stats // after the last event
	Events int   // events played: all of them, or those before the request that failed
	// OOM is the index of the first event that failed, -1 where none did; Failure describes it.
	OOM     int
	Failure Failure
	// PeakReserved and PeakAllocated are the events at which those peaks were reached first.
	PeakReserved, PeakAllocated int
	// Unused is the largest number of bytes that were reserved and not allocated.
	Unused units.Bytes
}

// Run plays a tape from an empty allocator, its initial allocations first. visit, where not nil, sees the
// allocator after each event. It stops at the first request that fails: what a program does after an
// OutOfMemoryError is not on the tape of a run that had none. A tape whose ids are not dense is refused.
func Run(t *tape.Tape, p Policy, visit func(i int, a *Allocator)) (Result, error) {
	if err := checkIDs(t); err != nil {
		return Result{OOM: -1}, err
	}
	if p.Streams == nil {
		p.Streams = t.Streams
	}
	if p.Pools == nil {
		p.Pools = t.Pools
	}
	p.IDs = t.Allocs
	a := New(p)
	for _, l := range t.Initial {
		if !a.Malloc(l.ID, l.Size, l.Stream, l.Pool) {
			return Result{Stats: a.Stats(), OOM: 0, Failure: a.LastFailure()}, nil
		}
	}
	return a.Play(t, visit), nil
}

// Play feeds the events of a tape to an allocator that may already hold its initial allocations.
func (a *Allocator) Play(t *tape.Tape, visit func(i int, a *Allocator)) Result {
	res := Result{OOM: -1}
	peak := a.stats.Peak
	for i := range t.Events {
		if !a.step(&t.Events[i]) {
			res.OOM, res.Failure = i, a.failed
			break
		}
		res.Events++
		if a.stats.Peak.Reserved > peak.Reserved {
			res.PeakReserved, peak.Reserved = i, a.stats.Peak.Reserved
		}
		if a.stats.Peak.Allocated > peak.Allocated {
			res.PeakAllocated, peak.Allocated = i, a.stats.Peak.Allocated
		}
		res.Unused = max(res.Unused, a.stats.Reserved-a.stats.Allocated)
		if visit != nil {
			visit(i, a)
		}
	}
	res.Stats = a.stats
	return res
}

func (a *Allocator) step(e *tape.Event) bool {
	switch e.Kind {
	case tape.Alloc:
		return a.Malloc(e.ID, e.Size, e.Stream, e.Pool) || e.Elastic && a.Decline()
	case tape.Free:
		a.Free(e.ID, e.Deferred)
	case tape.FreeCompleted:
		a.FreeCompleted(e.ID)
	case tape.EmptyCache:
		a.EmptyCache()
	}
	return true
}

// Decline goes on without a workspace that was refused: PyTorch catches the error and tries a plan that needs less, down to none. The cache has been
// released for it all the same. Source: try_plans,
// https://github.com/pytorch/pytorch/blob/v2.11.0/aten/src/ATen/native/cudnn/Conv_v8.cpp
func (a *Allocator) Decline() bool {
	a.stats.Declined++
	return true
}

// Outcome is how a run within a limit ends.
type Outcome uint8

// Outcomes, from the best to the worst.
const (
	Completes    Outcome = iota // no request had to wait for memory
	AfterRetries                // the cache had to be released for some request, or a workspace was refused
	Fails                       // a request found no memory after that
)

// Outcome says how the run ended.
func (r Result) Outcome() Outcome {
	switch {
	case r.OOM >= 0:
		return Fails
	case r.Stats.Retries > 0 || r.Stats.Declined > 0:
		return AfterRetries
	}
	return Completes
}

func checkIDs(t *tape.Tape) error {
	if t.Allocs > len(t.Events)+len(t.Initial) {
		return fmt.Errorf("tape has %d allocations but only %d events", t.Allocs, len(t.Events))
	}
	for i := range t.Initial {
		if int(t.Initial[i].ID) >= t.Allocs {
			return fmt.Errorf("initial allocation %d has id %d, but the tape has %d ids", i, t.Initial[i].ID, t.Allocs)
		}
	}
	for i := range t.Events {
		if e := &t.Events[i]; e.Kind == tape.Alloc && int(e.ID) >= t.Allocs {
			return fmt.Errorf("event %d has id %d, but the tape has %d ids", i, e.ID, t.Allocs)
		}
	}
	return nil
}
