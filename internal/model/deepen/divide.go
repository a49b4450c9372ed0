package deepen

import (
	"fmt"
	"slices"

	"github.com/plimsoll/plimsoll/internal/memory/tape"
)

// span is a stretch of events in one layer, or outside of layers (-1).
type span struct {
	first, end int
	layer      int32
}

// follow notes where allocations begin and end, and where the second step does.
func (c *cutter) follow() {
	t := c.r.Tape
	c.born, c.ended = make([]int, t.Allocs), make([]int, t.Allocs)
	for i := range c.ended {
		c.ended[i] = -1
	}
	for i := range t.Events {
		switch e := &t.Events[i]; e.Kind {
		case tape.Alloc:
			c.born[e.ID] = i
		case tape.Free:
			c.ended[e.ID] = i
		case tape.Mark:
			if c.start == 0 && t.Moments[e.Owner].Step == 2 {
				c.start = i
			}
		}
	}
}

// divide cuts the tape into groups.
func (c *cutter) divide() error {
	c.layer = make([]int32, len(c.r.Layers))
	for i, l := range c.r.Layers {
		if int(l) >= c.template.depth {
			l = -1
		}
		c.layer[i] = l
	}
	c.bridge()
	for piece, end := range []int{c.r.Made, c.r.Steps[0], c.start, c.r.Steps[1], len(c.layer)} {
		c.template.pieces[piece] = len(c.template.groups)
		for first := c.done; first < end; first = c.done {
			for c.done < end && (c.layer[c.done] < 0) == (c.layer[first] < 0) {
				c.done++
			}
			if c.layer[first] < 0 {
				c.outside(first, c.done)
				continue
			}
			if err := c.visits(first, c.done); err != nil {
				return err
			}
		}
	}
	return nil
}

// bridge counts what happens between two layers of one visit to the first of them: a loop over layers lets the last one's result go.
func (c *cutter) bridge() {
	last := -1 // the last event of a layer, with no mark since
	for i, l := range c.layer {
		switch {
		case c.r.Tape.Events[i].Kind == tape.Mark:
			last = -1
		case l < 0:
		default:
			if last >= 0 && last < i-1 && max(l, c.layer[last])-min(l, c.layer[last]) <= 1 {
				for k := last + 1; k < i; k++ {
					c.layer[k] = c.layer[last]
				}
			}
			last = i
		}
	}
}

// visits adds the visits to layers that a stretch inside of layers consists of.
func (c *cutter) visits(first, end int) error {
	spans := split(first, end, func(i int) int32 { return c.layer[i] })
	for len(spans) > 0 {
		n := c.visit(spans)
		if n == 0 {
			return fmt.Errorf("a pass does not visit all layers in turn: %w", ErrIrregular)
		}
		c.add(spans[:n])
		spans = spans[n:]
	}
	return nil
}

// outside adds a stretch outside of layers. What it lets go of every layer in turn (gradients, cast weights) is a visit too.
func (c *cutter) outside(first, end int) {
	spans := split(first, end, func(i int) int32 {
		if e := &c.r.Tape.Events[i]; e.Kind == tape.Free {
			return c.layer[c.born[e.ID]]
		}
		return -1
	})
	for len(spans) > 0 {
		n := c.visit(spans)
		if n > 0 {
			c.add(spans[:n])
			spans = spans[n:]
			continue
		}
		for n = 1; n < len(spans) && c.visit(spans[n:]) == 0; n++ {
		}
		c.add([]span{{spans[0].first, spans[n-1].end, -1}})
		spans = spans[n:]
	}
}

// split cuts a stretch where its layer changes.
func split(first, end int, layer func(i int) int32) []span {
	var out []span
	for i := first; i < end; i++ {
		l := layer(i)
		if n := len(out); n > 0 && out[n-1].layer == l {
			out[n-1].end = i + 1
			continue
		}
		out = append(out, span{i, i + 1, l})
	}
	return out
}

// visit counts the spans with which a visit to all layers of one or more zones begins, up or down; the longest counts.
func (c *cutter) visit(spans []span) int {
	first, step := int(spans[0].layer), 1
	if len(spans) > 1 && spans[1].layer < spans[0].layer {
		step = -1
	}
	n := 1
	for n < len(spans) && spans[n].layer == spans[n-1].layer+int32(step) && spans[n].layer >= 0 {
		n++
	}
	for ; n > 1; n-- {
		low, high := min(first, first+step*(n-1)), max(first, first+step*(n-1))+1
		if slices.Contains(c.borders, low) && slices.Contains(c.borders, high) {
			return n
		}
	}
	return 0
}

// add makes a group of spans: one outside of layers, or one of each layer of some zones.
func (c *cutter) add(spans []span) {
	g := group{parts: make([][]event, 1), starts: make([]int, 1)}
	if first, last := spans[0].layer, spans[len(spans)-1].layer; first >= 0 {
		g = group{sweep: true, down: last < first, parts: make([][]event, c.template.depth), starts: make([]int, c.template.depth)}
		g.low = slices.Index(c.borders, int(min(first, last)))
		g.high = slices.Index(c.borders, int(max(first, last))+1)
	}
	at := int32(len(c.template.groups))
	for _, s := range spans {
		allocs := int32(0)
		for i := s.first; i < s.end; i++ {
			if e := &c.r.Tape.Events[i]; e.Kind == tape.Alloc {
				c.where[e.ID] = spot{group: at, layer: s.layer, index: allocs}
				allocs++
			}
		}
	}
	c.template.groups = append(c.template.groups, g)
	c.spans = append(c.spans, spans)
}
