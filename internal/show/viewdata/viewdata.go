// Package viewdata answers what a screen asks of a timeline, in the detail the screen can show and no more.
//
// It takes a timeline and a question: a stretch of events or of time in so many columns, an instant, an allocation, a word to look for and returns values of a size
// that depends on the screen and not on the recording. Events are counted as PyTorch recorded them, and an instant is the moment just after one. Summaries of blocks of events are made once for each way of grouping, so that a question
// about ten million events looks at thousands. It refuses nothing: a question beyond the recording is answered by the nearest
// there is.
package viewdata

import (
	"sort"
	"strings"

	"github.com/plimsoll/plimsoll/internal/answer/report"
	"github.com/plimsoll/plimsoll/internal/memory/tape"
	"github.com/plimsoll/plimsoll/internal/memory/timeline"
	"github.com/plimsoll/plimsoll/internal/units"
	"github.com/plimsoll/plimsoll/snapshot"
)

// Index is a timeline made ready for questions. It may be asked by several callers at once.
type Index struct {
	T *timeline.Timeline

	lastAlloc int // tape event of the last allocation; -1: there is none

	held     []held   // what was reserved by PyTorch, at each change
	segments []uint32 // trace events that take or give back memory
	latest   []uint32 // by block of allocations: the last of their deaths
}

// held is what was reserved by PyTorch from an event on.
type held struct {
	event uint32
	bytes units.Bytes
}

// idBlock is how many allocations share an entry of latest.
const idBlock = 1024

// New prepares a timeline. Groupings are made when they are first needed, by Group.
func New(t *timeline.Timeline) *Index {
	x := &Index{T: t, held: []held{{0, t.Reserved}}}
	x.readSegments()
	for x.lastAlloc = len(t.Tape.Events) - 1; x.lastAlloc >= 0 && t.Tape.Events[x.lastAlloc].Kind != tape.Alloc; {
		x.lastAlloc--
	}
	x.latest = make([]uint32, (len(t.Died)+idBlock-1)/idBlock)
	for id, died := range t.Died {
		x.latest[id/idBlock] = max(x.latest[id/idBlock], died)
	}
	return x
}

// readSegments notes every change of what is held.
func (x *Index) readSegments() {
	t := x.T
	now := t.Reserved
	for i, a := range t.Trace.Action {
		switch a {
		case snapshot.ActionSegmentAlloc, snapshot.ActionSegmentMap:
			now += units.Bytes(t.Trace.Size[i])
		case snapshot.ActionSegmentFree, snapshot.ActionSegmentUnmap:
			now -= units.Bytes(t.Trace.Size[i])
		default:
			continue
		}
		x.segments = append(x.segments, uint32(i))
		x.held = append(x.held, held{uint32(i), now})
	}
}

// Events is the number of recorded events.
func (x *Index) Events() int { return x.T.Trace.Len() }

// Overview is what a page must know before it asks for anything else.
type Overview struct {
	Input    string  `json:"input"`
	Device   int     `json:"device"`
	Events   int     `json:"events"`
	Duration int64   `json:"duration_us"` // 0: no times were recorded
	Peak     Instant `json:"peak"`
	Steps    []int   `json:"steps"` // the last event of each
	Failures []Fail  `json:"failures"`
	Groups   []By    `json:"groups"`
}

// Instant is the moment just after an event; -1 is before the first.
type Instant struct {
	Event    int         `json:"event"`
	Time     int64       `json:"time_us"`
	Step     int         `json:"step"` // from 0; Steps: after the last
	Steps    int         `json:"steps"`
	InUse    units.Bytes `json:"in_use"`
	Reserved units.Bytes `json:"reserved"`
}

// Fail is a request that could not be served.
type Fail struct {
	Event     int         `json:"event"`
	Time      int64       `json:"time_us"`
	Requested units.Bytes `json:"requested"`
}

// Overview describes the recording.
func (x *Index) Overview(input string) Overview {
	t := x.T
	o := Overview{
		Input: input, Device: t.Device, Events: x.Events(), Duration: x.Time(x.Events() - 1),
		Peak: x.instant(x.PeakEvent()), Steps: []int{}, Failures: []Fail{}, Groups: x.Groups(),
	}
	o.Peak.InUse = t.Peak.Requested
	for _, e := range t.Steps {
		o.Steps = append(o.Steps, x.recorded(e))
	}
	for i := range t.Tape.Events {
		if e := &t.Tape.Events[i]; e.Kind == tape.OOM {
			at := x.recorded(i)
			o.Failures = append(o.Failures, Fail{Event: at, Time: x.Time(at), Requested: e.Size})
		}
	}
	return o
}

// PeakEvent is the event at which most was in use.
func (x *Index) PeakEvent() int { return x.recorded(x.T.Peak.Event) }

// recorded is the recorded event of a tape event; -1 before the first.
func (x *Index) recorded(tapeEvent int) int {
	if tapeEvent < 0 || tapeEvent >= len(x.T.Event) {
		return -1
	}
	return int(x.T.Event[tapeEvent])
}

// tapeFrom is the first tape event not before a recorded one.
func (x *Index) tapeFrom(event int) int {
	return sort.Search(len(x.T.Event), func(i int) bool { return int(x.T.Event[i]) >= event })
}

// clamp brings an event into the recording; -1 is the moment before the first.
func (x *Index) clamp(event int) int { return max(-1, min(event, x.Events()-1)) }

func (x *Index) instant(event int) Instant {
	event = x.clamp(event)
	return Instant{Event: event, Time: x.Time(event), Step: x.T.StepOf(x.tapeFrom(event+1) - 1), Steps: len(x.T.Steps), Reserved: x.reservedAfter(event)}
}

// reservedAfter is what was held when an event had happened.
func (x *Index) reservedAfter(event int) units.Bytes {
	k := 1 + sort.Search(len(x.held)-1, func(i int) bool { return int(x.held[1+i].event) > event })
	return x.held[k-1].bytes
}

// Time is when an event happened, in microseconds since the first; 0 where times were not recorded.
func (x *Index) Time(event int) int64 {
	t := x.T.Trace.TimeUS
	if t == nil || event < 0 || event >= len(t) {
		return 0
	}
	return max(0, t[event]-t[0])
}

// eventAfter is the first event later than a time.
func (x *Index) eventAfter(us int64) int {
	return sort.Search(x.Events(), func(i int) bool { return x.Time(i) > us })
}

// place is the user's line of a stack, nil where there is none.
func (x *Index) place(stack snapshot.StackID) *report.Place {
	f, ok := x.T.Origins.UserFrame(stack)
	if !ok {
		return nil
	}
	return &report.Place{File: f.File, Line: f.Line, Function: f.Function}
}

// matches tells of every stack whether a file or function of it contains a word, whatever the case.
func (x *Index) matches(word string) []bool {
	stacks := x.T.Origins.Stacks
	word = strings.ToLower(word)
	frames := make([]bool, len(stacks.Frames))
	for i, f := range stacks.Frames {
		frames[i] = strings.Contains(strings.ToLower(f.File), word) || strings.Contains(strings.ToLower(f.Function), word)
	}
	out := make([]bool, stacks.Len())
	for id := range out {
		for _, f := range stacks.Stack(snapshot.StackID(id)) {
			out[id] = out[id] || frames[f]
		}
	}
	return out
}
