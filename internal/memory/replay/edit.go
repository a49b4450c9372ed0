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
}

// Play replays an edited history. It reports false where the recorded run showed no limit, so that nothing can fail.
func (c *Case) Play(e Edit) (Played, bool) {
	if !c.Limit.Known() {
		return Played{}, false
	}
	setting := Setting{c.ConfText, c.Conf}
	if e.Setting != nil {
		setting = *e.Setting
	}
	limit := c.Limit.Bytes()
	p := editor{c: c, edit: e, limit: limit}
	p.freed = slices.SortedStableFunc(slices.Values(e.Freed), func(x, y Early) int { return cmp.Compare(x.Event, y.Event) })
	var before []tape.Live
	p.a, before = c.begin(setting, Target{Capacity: c.Limit.Cap, Device: c.Limit.Device}, c.below())
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
		}
	}
	p.out.Passes = true
}

// again makes a request that failed in the recording.
func (p *editor) again(e *tape.Event) bool {
	extra, size := uint32(p.c.tape.Allocs), e.Size
	if p.edit.Request != nil {
		size = p.edit.Request(size)
	}
	if !p.a.Malloc(extra, size, e.Stream, e.Pool) {
		return false
	}
	p.out.Room = p.limit - p.a.Stats().Active
	p.a.Free(extra, false)
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
	f := p.a.LastFailure()
	p.out.Event = int(p.c.event[k])
	p.out.Short = max(0, f.Stats.Reserved+f.Segment-p.limit)
}
