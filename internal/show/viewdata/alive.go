package viewdata

import (
	"cmp"
	"slices"
	"sort"

	"github.com/plimsoll/plimsoll/internal/answer/report"
	"github.com/plimsoll/plimsoll/internal/memory/tape"
	"github.com/plimsoll/plimsoll/internal/units"
	"github.com/plimsoll/plimsoll/snapshot"
)

// Alive is what holds memory at an instant.
type Alive struct {
	Instant
	Count      int                    `json:"count"`
	ByCategory map[string]units.Bytes `json:"by_category"`
	Waiting    units.Bytes            `json:"waiting"` // given up, but another stream may still use it
	Rows       []Row                  `json:"rows"`    // by stack and category, the most bytes first
	More       int                    `json:"more_rows"`
	Flame      Node                   `json:"flame"`
	// Frames are what Rows and Flame refer to.
	Frames []report.Place `json:"frames"`
}

// Row is what one stack holds for one purpose.
type Row struct {
	Bytes    units.Bytes   `json:"bytes"`
	Count    int           `json:"count"`
	Category string        `json:"category"`
	Where    *report.Place `json:"where,omitempty"`
	Name     string        `json:"name"`    // where there is no line
	Frames   []int         `json:"frames"`  // innermost first
	Oldest   int           `json:"oldest"`  // step the oldest was made in; -1: before the history
	Largest  []uint32      `json:"largest"` // some of the allocations, the largest first
}

// Node is a frame of the flame graph; children are called by it.
type Node struct {
	Frame    int         `json:"f"` // -1: Name says what it is
	Name     string      `json:"n,omitempty"`
	Bytes    units.Bytes `json:"v"`
	Category string      `json:"c"` // what most of it is for
	Children []Node      `json:"k,omitempty"`
}

// Detail bounds an answer about an instant.
type Detail struct {
	Rows      int // rows of the table
	Samples   int // allocations named in each
	Fraction  int // nodes smaller than the whole divided by this are left out
	MaxFrames int // depth of the flame graph
}

// Full is the detail of a page that can ask again.
func Full() Detail { return Detail{Rows: 200, Samples: 12, Fraction: 4000, MaxFrames: 96} }

// Alive looks at the moment just after an event.
func (x *Index) Alive(event int, d Detail) Alive {
	out := Alive{Instant: x.instant(event), ByCategory: map[string]units.Bytes{}, Rows: []Row{}, Frames: []report.Place{}}
	last := x.tapeFrom(out.Event+1) - 1
	groups := x.aliveGroups(last, d.Samples)
	for c := range tape.Categories {
		out.ByCategory[tape.Category(c).String()] = 0
	}
	for _, g := range groups {
		out.InUse += g.bytes
		out.Count += g.count
		out.ByCategory[g.category.String()] += g.bytes
	}
	out.Waiting = x.waitingAfter(last)
	frames := frameTable{x: x, index: map[snapshot.FrameID]int{}}
	out.Flame = x.flame(groups, out.InUse, d, &frames)
	if len(groups) > d.Rows {
		out.More = len(groups) - d.Rows
		groups = groups[:d.Rows]
	}
	for _, g := range groups {
		out.Rows = append(out.Rows, x.row(g, &frames))
	}
	out.Frames = append(out.Frames, frames.places...)
	return out
}

// aliveGroup is what one stack holds for one purpose.
type aliveGroup struct {
	stack    snapshot.StackID
	category tape.Category
	bytes    units.Bytes
	count    int
	oldest   uint32 // allocation
	largest  []uint32
}

// each calls f for every allocation alive just after a tape event. Allocations are numbered in the order they were made, and
// whole blocks of them have died: most need not be looked at.
func (x *Index) each(event int, f func(id int)) {
	t := x.T
	initial := len(t.Tape.Initial)
	end := initial + sort.Search(len(t.Died)-initial, func(i int) bool { return int(t.Born[initial+i]) > event })
	for b := 0; b*idBlock < end; b++ {
		if int(x.latest[b]) <= event {
			continue
		}
		for id := b * idBlock; id < min(end, (b+1)*idBlock); id++ {
			if int(t.Died[id]) > event {
				f(id)
			}
		}
	}
}

func (x *Index) aliveGroups(event, samples int) []*aliveGroup {
	t := x.T
	byKey := map[uint64]*aliveGroup{}
	var all []*aliveGroup
	x.each(event, func(id int) {
		key := uint64(t.Stack[id])<<8 | uint64(t.Category[id])
		g := byKey[key]
		if g == nil {
			g = &aliveGroup{stack: t.Stack[id], category: t.Category[id], oldest: uint32(id)}
			byKey[key] = g
			all = append(all, g)
		}
		g.bytes += t.Size(id)
		g.count++
		g.largest = x.keepLargest(g.largest, uint32(id), samples)
	})
	slices.SortStableFunc(all, func(a, b *aliveGroup) int { return cmp.Compare(b.bytes, a.bytes) })
	return all
}

// keepLargest inserts an allocation into a short list ordered by size.
func (x *Index) keepLargest(list []uint32, id uint32, n int) []uint32 {
	size := x.T.Size(int(id))
	at := len(list)
	for at > 0 && x.T.Size(int(list[at-1])) < size {
		at--
	}
	if at >= n {
		return list
	}
	list = slices.Insert(list, at, id)
	return list[:min(len(list), n)]
}

// waitingAfter is what had been given up and not yet returned just after a tape event.
func (x *Index) waitingAfter(event int) units.Bytes {
	if len(x.T.Tape.Streams) < 2 { // nothing ever waited for another stream
		return 0
	}
	var sum units.Bytes
	for i := range event + 1 {
		switch e := &x.T.Tape.Events[i]; {
		case e.Kind == tape.Free && e.Deferred:
			sum += e.Size
		case e.Kind == tape.FreeCompleted:
			sum -= e.Size
		}
	}
	return max(0, sum)
}

func (x *Index) row(g *aliveGroup, frames *frameTable) Row {
	r := Row{
		Bytes: g.bytes, Count: g.count, Category: g.category.String(), Where: x.place(g.stack), Name: x.nameless(g.stack),
		Frames: []int{}, Oldest: x.T.BornIn(int(g.oldest)), Largest: g.largest,
	}
	for _, f := range x.T.Origins.Readable(g.stack) {
		r.Frames = append(r.Frames, frames.of(f))
	}
	return r
}

// frameTable numbers the frames that an answer mentions.
type frameTable struct {
	x      *Index
	index  map[snapshot.FrameID]int
	places []report.Place
}

func (t *frameTable) of(id snapshot.FrameID) int {
	i, ok := t.index[id]
	if !ok {
		i = len(t.places)
		t.index[id] = i
		f := &t.x.T.Origins.Stacks.Frames[id]
		t.places = append(t.places, report.Place{File: f.File, Line: f.Line, Function: f.Function})
	}
	return i
}
