package viewdata

import (
	"fmt"

	"github.com/plimsoll/plimsoll/internal/answer/report"
	"github.com/plimsoll/plimsoll/internal/evidence/recording"
	"github.com/plimsoll/plimsoll/internal/memory/tape"
	"github.com/plimsoll/plimsoll/internal/units"
)

// Allocation is everything known of one.
type Allocation struct {
	ID       uint32         `json:"id"`
	Bytes    units.Bytes    `json:"bytes"`
	Address  string         `json:"address"`
	Category string         `json:"category"`
	Phase    string         `json:"phase"`
	Stream   uint16         `json:"stream"` // ordinal; 0 is the default stream
	Pool     uint16         `json:"pool"`   // ordinal; 0 is the default pool
	Born     *Instant       `json:"born,omitempty"`
	Died     *Instant       `json:"died,omitempty"` // absent: alive at the end
	Frames   []report.Place `json:"frames"`         // innermost first
	Name     string         `json:"name"`           // where there are no frames
	// Alike counts allocations of the same stack and size, this one among them.
	Alike int `json:"alike"`
	// Holder is who keeps it alive at the end, where the probe looked and found one.
	Holder *Holding `json:"holder,omitempty"`
}

// Allocation describes one allocation by its ordinal.
func (x *Index) Allocation(id int) (Allocation, error) {
	t := x.T
	if id < 0 || id >= len(t.Died) {
		return Allocation{}, fmt.Errorf("there is no allocation %d: the recording has %d", id, len(t.Died))
	}
	a := Allocation{
		ID: uint32(id), Bytes: t.Size(id), Address: fmt.Sprintf("%#x", t.Addr[id]), Category: t.Category[id].String(), Phase: t.Phase[id].String(),
		Frames: []report.Place{}, Name: x.nameless(t.Stack[id]), Holder: x.holding(id),
	}
	if id < len(t.Tape.Initial) {
		a.Stream, a.Pool = t.Tape.Initial[id].Stream, t.Tape.Initial[id].Pool
	} else {
		born := x.instant(x.recorded(int(t.Born[id])))
		e := &t.Tape.Events[t.Born[id]]
		a.Born, a.Stream, a.Pool = &born, e.Stream, e.Pool
	}
	if t.Died[id] != recording.NeverFreed {
		died := x.instant(x.recorded(int(t.Died[id])))
		a.Died = &died
	}
	for _, f := range t.Origins.Readable(t.Stack[id]) {
		frame := &t.Origins.Stacks.Frames[f]
		a.Frames = append(a.Frames, report.Place{File: frame.File, Line: frame.Line, Function: frame.Function})
	}
	for other, stack := range t.Stack {
		if stack == t.Stack[id] && t.Size(other) == a.Bytes {
			a.Alike++
		}
	}
	return a, nil
}

// Event is one event that concerns a tensor.
type Event struct {
	Event    int           `json:"event"`
	Kind     string        `json:"kind"` // alloc, free, freed (a deferred free takes effect), oom
	Bytes    units.Bytes   `json:"bytes"`
	ID       int           `json:"id"` // allocation; -1: none
	Category string        `json:"category,omitempty"`
	Where    *report.Place `json:"where,omitempty"`
	Name     string        `json:"name,omitempty"`
}

// maxEvents bounds a list of events.
const maxEvents = 1000

var kindNames = map[tape.Kind]string{
	tape.Alloc: "alloc", tape.Free: "free", tape.FreeCompleted: "freed", tape.EmptyCache: "empty cache", tape.OOM: "oom", tape.Mark: "mark",
}

// List gives single events from one on, as many as a list can show.
func (x *Index) List(from, n int) []Event {
	first := x.tapeFrom(from)
	end := min(len(x.T.Event), first+max(0, min(n, maxEvents)))
	out := make([]Event, 0, end-first)
	for i := first; i < end; i++ {
		e := &x.T.Tape.Events[i]
		v := Event{Event: int(x.T.Event[i]), Kind: kindNames[e.Kind], Bytes: e.Size, ID: -1}
		switch e.Kind {
		case tape.Alloc, tape.Free, tape.FreeCompleted:
			stack := x.T.Stack[e.ID]
			v.ID, v.Category, v.Where = int(e.ID), x.T.Category[e.ID].String(), x.place(stack)
			if v.Where == nil {
				v.Name = x.nameless(stack)
			}
		case tape.OOM:
			v.Where = x.place(x.T.Trace.Stack[x.T.Event[i]])
		}
		out = append(out, v)
	}
	return out
}
