package replay

import (
	"cmp"
	"slices"

	"github.com/plimsoll/plimsoll/internal/memory/alloc"
	"github.com/plimsoll/plimsoll/internal/memory/tape"
	"github.com/plimsoll/plimsoll/internal/units"
)

// Edit is a history as it might have been: the same requests, but some of them other in size, never made, or freed earlier.
type Edit struct {
	// Size gives the size of an allocation; 0: it is never made. nil: all as recorded.
	Size func(id uint32, recorded units.Bytes) units.Bytes
	// Request does the same for the requests that failed in the recording.
	Request func(recorded units.Bytes) units.Bytes
	// Freed lists allocations that go earlier than recorded.
	Freed []Early
	// Setting is the allocator's configuration; nil: as recorded.
	Setting *Setting
	// Then is what happens once the last failed request has been served: events of allocations of the history, of that request, whose ID is Case.Failed, and of new ones,
	// whose IDs follow it. What the recording holds after the failure is then left out.
	Then []tape.Event
	// Limit is what PyTorch may hold, where more is known of it than the recording shows; 0: the recorded limit.
	Limit units.Bytes
}

// Early is an allocation that is freed after an event of the recording's tape.
type Early struct{ ID, Event uint32 }

// Played is what an edited history comes to under the limit of the recorded run.
type Played struct {
	Passes bool        // every request is served, those that failed in the recording too
	Event  int         // the event of the history that fails, where one does
	Room   units.Bytes // what the limit leaves beside the memory in use when the last failed request has been served
	Short  units.Bytes // what is missing to serve the request that fails
	Peak   alloc.Peak
	// Completes says that everything of Edit.Then is served, too; Lacks is what is missing where it is not.
	Completes bool
	Lacks     units.Bytes
}

// Failed is the ID of the request that failed last in the recording: the first that no allocation has.
func (c *Case) Failed() uint32 { return uint32(c.tape.Allocs) }

// Play replays an edited history. It reports false where the recorded run showed no limit, so that nothing can fail.
func (c *Case) Play(e Edit) (Played, bool) {
	if !c.Limit.Known() {
		return Played{}, false
	}
	setting := Setting{c.ConfText, c.Conf}
	if e.Setting != nil {
		setting = *e.Setting
	}
	target, limit := Target{Capacity: c.Limit.Cap, Device: c.Limit.Device}, c.Limit.Bytes()
	if e.Limit > 0 {
		target, limit = Target{Capacity: e.Limit}, e.Limit
	}
	p := editor{c: c, edit: e, limit: limit}
	p.freed = slices.SortedStableFunc(slices.Values(e.Freed), func(x, y Early) int { return cmp.Compare(x.Event, y.Event) })
	var before []tape.Live
	p.a, before = c.begin(setting, target, c.below())
	p.begin(before)
	p.run()
	p.out.Peak = p.a.Stats().Peak
	return p.out, true
}

type editor struct {
	c     *Case
	edit  Edit
	a     *alloc.Allocator
	freed []Early
	limit units.Bytes
	out   Played
}

func (p *editor) size(id uint32, recorded units.Bytes) units.Bytes {
	if p.edit.Size == nil {
		return recorded
	}
	return p.edit.Size(id, recorded)
}

// begin gives the allocator what was alive before the history, without what the edit leaves out.
func (p *editor) begin(before []tape.Live) {
	for _, l := range before {
		p.a.Malloc(l.ID, p.size(l.ID, l.Size), l.Stream, l.Pool)
	}
	if len(before) > 0 || p.edit.Size == nil {
		return
	}
	for _, l := range p.c.tape.Initial {
		if p.edit.Size(l.ID, l.Size) == 0 {
			p.a.Free(l.ID, false)
		}
	}
}

// run feeds the history until a request fails.
func (p *editor) run() {
	last := p.c.lastFailure()
	for k := range p.c.tape.Events {
		e := &p.c.tape.Events[k]
		p.free(p.c.event[k])
		switch e.Kind {
		case tape.Alloc:
			if !p.a.Malloc(e.ID, p.size(e.ID, e.Size), e.Stream, e.Pool) {
				p.fails(k)
				return
			}
		case tape.Free:
			p.a.Free(e.ID, e.Deferred)
		case tape.FreeCompleted:
			p.a.FreeCompleted(e.ID)
		case tape.EmptyCache:
			p.a.EmptyCache()
		case tape.OOM:
			if !p.again(e) {
				p.fails(k)
				return
			}
			if k == last && p.edit.Then != nil {
				p.out.Passes = true
				p.goOn()
				return
			}
			p.a.Free(p.c.Failed(), false)
		}
	}
	p.out.Passes = true
}

// lastFailure is the event of the last request that failed; -1: none did.
func (c *Case) lastFailure() int {
	for k := len(c.tape.Events) - 1; k >= 0; k-- {
		if c.tape.Events[k].Kind == tape.OOM {
			return k
		}
	}
	return -1
}

// goOn feeds what comes after the failure until a request fails.
func (p *editor) goOn() {
	for i := range p.edit.Then {
		e := &p.edit.Then[i]
		switch e.Kind {
		case tape.Alloc:
			if !p.a.Malloc(e.ID, p.size(e.ID, e.Size), e.Stream, e.Pool) && !e.Elastic {
				p.out.Lacks = p.missing()
				return
			}
		case tape.Free:
			p.a.Free(e.ID, e.Deferred)
		case tape.FreeCompleted:
			p.a.FreeCompleted(e.ID)
		}
	}
	p.out.Completes = true
}

// again makes a request that failed in the recording.
func (p *editor) again(e *tape.Event) bool {
	extra, size := p.c.Failed(), e.Size
	if p.edit.Request != nil {
		size = p.edit.Request(size)
	}
	if !p.a.Malloc(extra, size, e.Stream, e.Pool) {
		return false
	}
	p.out.Room = p.limit - p.a.Stats().Active
	return true
}

// free gives up what the edit frees before a trace event.
func (p *editor) free(trace uint32) {
	for len(p.freed) > 0 && p.c.Recording.Event[p.freed[0].Event] < trace {
		p.a.Free(p.freed[0].ID, false)
		p.freed = p.freed[1:]
	}
}

func (p *editor) fails(k int) {
	p.out.Event = int(p.c.event[k])
	p.out.Short = p.missing()
}

// missing is what the limit lacks to serve the request that has just failed.
func (p *editor) missing() units.Bytes {
	f := p.a.LastFailure()
	return max(0, f.Stats.Reserved+f.Segment-p.limit)
}
