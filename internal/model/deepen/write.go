package deepen

import (
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"

	"github.com/plimsoll/plimsoll/internal/memory/tape"
	"github.com/plimsoll/plimsoll/internal/units"
)

// Turns are what an optimizer does: when it is made, in its first step and in every later one. Identifiers begin at zero in each.
type Turns struct {
	Owners             []tape.Owner
	Made, First, Later []tape.Event
}

// Write plays a template with so many layers in each zone and the turns of an optimizer: load and three steps.
func (r *Template) Write(zones []int, o Turns) (*tape.Tape, error) {
	w := &writer{r: r, t: &tape.Tape{Streams: []uint64{0}, Pools: make([][2]uint64, 1)}}
	if err := w.arrange(zones); err != nil {
		return nil, err
	}
	w.own(o.Owners)
	w.t.Events = make([]tape.Event, 0, w.count()+len(o.Made)+len(o.First)+2*len(o.Later))
	w.base = make([][]uint32, len(r.groups))
	p := r.pieces
	w.groups(p[0], p[1])
	w.ahead()
	w.turn(o.Made)
	w.groups(p[1], p[2])
	w.turn(o.First)
	w.groups(p[2], p[3])
	w.groups(p[3], p[4])
	w.turn(o.Later)
	w.groups(p[4], len(r.groups))
	w.prior, w.again = slices.Clone(w.base), true
	w.groups(p[3], p[4])
	w.turn(o.Later)
	w.groups(p[4], len(r.groups))
	return w.t, nil
}

// ahead makes what is taken ahead as large as what is read after it, whose layers are more or fewer than those of the recording.
func (w *writer) ahead() {
	at, size := -1, units.Bytes(0)
	for i, e := range w.t.Events {
		switch {
		case e.Kind != tape.Alloc:
		case w.t.Owners[e.Owner].Op == tape.OpAhead:
			at = i
		case w.t.Owners[e.Owner].Op == tape.OpRead:
			size += e.Size
		}
	}
	if at >= 0 { // it is let go at once
		w.t.Events[at].Size, w.t.Events[at+1].Size = size, size
	}
}

// writer is one run of Write.
type writer struct {
	r       *Template
	t       *tape.Tape
	borders []int
	depth   int
	from    []int32    // by layer: the one of the recording it is like
	owners  []uint32   // by name: the first owner of it
	turns   uint32     // the first owner of the optimizer's turns
	base    [][]uint32 // by group and layer: identifier of its first allocation
	prior   [][]uint32 // those of the step before, once it repeats
	again   bool       // this is a further step
	next    uint32     // identifier of the next allocation
}

// arrange finds for every layer the one of the recording it is like.
func (w *writer) arrange(zones []int) error {
	if len(zones) != len(w.r.zones) {
		return fmt.Errorf("a template with %d zones cannot be played with %d", len(w.r.zones), len(zones))
	}
	w.borders = borders(zones)
	w.depth = w.borders[len(zones)]
	recorded := borders(w.r.zones)
	for z, n := range zones {
		have := w.r.zones[z]
		if n != have && (have < stretchable(w.r.period) || n < 2*edge || (n-have)%w.r.period != 0) {
			return fmt.Errorf("a zone of %d layers cannot be played with %d", have, n)
		}
		for l := range n {
			like := l
			switch {
			case l >= n-edge:
				like = have - (n - l)
			case l > edge:
				like = edge + (l-edge)%w.r.period
			}
			w.from = append(w.from, int32(recorded[z]+like))
		}
	}
	return nil
}

// own writes the owners: each name once, those inside of layers once for each layer.
func (w *writer) own(turns []tape.Owner) {
	for _, n := range w.r.names {
		w.owners = append(w.owners, uint32(len(w.t.Owners)))
		if !n.layered {
			w.t.Owners = append(w.t.Owners, tape.Owner{Category: n.category, Module: n.within, Op: n.op})
			continue
		}
		for l := range w.depth {
			w.t.Owners = append(w.t.Owners, tape.Owner{Category: n.category, Module: module(n, l), Op: n.op})
		}
	}
	w.turns = uint32(len(w.t.Owners))
	w.t.Owners = append(w.t.Owners, turns...)
}

// module is the path of a name in a layer.
func module(n name, layer int) string {
	parts := make([]string, 0, 3)
	if n.list != "" {
		parts = append(parts, n.list)
	}
	parts = append(parts, strconv.Itoa(layer))
	if n.within != "" {
		parts = append(parts, n.within)
	}
	return strings.Join(parts, ".")
}

// count is the number of events of the passes.
func (w *writer) count() int {
	total := 0
	for i := range w.r.groups {
		g, n := &w.r.groups[i], 0
		if !g.sweep {
			n = len(g.parts[0])
		} else {
			for l := w.borders[g.low]; l < w.borders[g.high]; l++ {
				n += len(g.parts[w.from[l]])
			}
		}
		if i >= w.r.pieces[3] {
			n *= 2
		}
		total += n
	}
	return total
}

// layers are those a sweep goes through, in its direction.
func (w *writer) layers(g *group) iter.Seq[int] {
	low, high := w.borders[g.low], w.borders[g.high]
	return func(yield func(int) bool) {
		for k := range high - low {
			l := low + k
			if g.down {
				l = high - 1 - k
			}
			if !yield(l) {
				return
			}
		}
	}
}

// groups writes some groups, in order.
func (w *writer) groups(first, end int) {
	for i := first; i < end; i++ {
		g := &w.r.groups[i]
		if !g.sweep {
			w.base[i] = []uint32{w.next}
			w.part(g.parts[0], 0)
			continue
		}
		w.base[i] = make([]uint32, w.depth)
		for l := range w.layers(g) {
			w.base[i][l] = w.next
			w.part(g.parts[w.from[l]], l)
		}
	}
}

// part writes the events of one layer, or of none.
func (w *writer) part(events []event, layer int) {
	for i := range events {
		e := &events[i]
		out := tape.Event{Kind: e.kind, Elastic: e.elastic, Size: e.size}
		switch e.kind {
		case tape.Mark:
			out.Owner = w.moment(w.r.moments[e.owner.index])
		case tape.Alloc:
			out.Owner, out.ID = w.owners[e.owner.index]+uint32(w.layer(e.owner, layer)), w.next
			w.next++
			w.t.Allocs++
		case tape.Free:
			out.Owner, out.ID = w.owners[e.owner.index]+uint32(w.layer(e.owner, layer)), w.allocation(e, layer)
		}
		w.t.Events = append(w.t.Events, out)
	}
}

// allocation is the identifier of what an event frees.
func (w *writer) allocation(e *event, layer int) uint32 {
	to, base := e.ref, w.base
	if w.again {
		to = e.again
		if e.prior {
			base = w.prior
		}
	}
	return base[to.group][w.layer(to, layer)] + uint32(to.index)
}

// layer is that of a place, 0 outside of layers.
func (w *writer) layer(p place, from int) int {
	switch p.how {
	case relative:
		return from + int(p.offset)
	case anchored:
		return w.borders[p.border] + int(p.offset)
	}
	return 0
}

// moment writes what a mark begins; those of a further step are numbered on.
func (w *writer) moment(m tape.Moment) uint32 {
	if m.Step == 2 && w.again {
		m.Step = 3
	}
	i := slices.Index(w.t.Moments, m)
	if i < 0 {
		i = len(w.t.Moments)
		w.t.Moments = append(w.t.Moments, m)
	}
	return uint32(i)
}

// turn writes what the optimizer does.
func (w *writer) turn(events []tape.Event) {
	base := w.next
	for _, e := range events {
		e.ID += base
		e.Owner += w.turns
		if e.Kind == tape.Alloc {
			w.next++
			w.t.Allocs++
		}
		w.t.Events = append(w.t.Events, e)
	}
}
