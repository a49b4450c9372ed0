package deepen

import (
	"fmt"

	"github.com/plimsoll/plimsoll/internal/memory/tape"
)

// spot is where an allocation is made.
type spot struct {
	group int32
	layer int32 // -1: outside of layers
	index int32 // among the allocations of its part
}

// fill writes the events of every group.
func (c *cutter) fill() error {
	for g, spans := range c.spans {
		for _, s := range spans {
			events := make([]event, 0, s.end-s.first)
			for i := s.first; i < s.end; i++ {
				e, err := c.event(i, s.layer)
				if err != nil {
					return err
				}
				events = append(events, e)
			}
			at := max(s.layer, 0)
			c.template.groups[g].parts[at], c.template.groups[g].starts[at] = events, s.first
		}
	}
	return nil
}

// event is one event of the tape, seen from a layer.
func (c *cutter) event(i int, from int32) (event, error) {
	e := &c.r.Tape.Events[i]
	out := event{kind: e.Kind, elastic: e.Elastic, size: e.Size}
	if e.Kind == tape.Mark {
		out.owner.index = int32(e.Owner)
		return out, nil
	}
	var err error
	if out.owner, err = c.place(from, spot{layer: c.at[e.Owner], index: c.owner[e.Owner]}); err != nil || e.Kind == tape.Alloc {
		return out, err
	}
	if e.Kind != tape.Free || e.Deferred || e.Stream != 0 || e.Pool != 0 {
		return out, fmt.Errorf("event %d is of another kind than a training step's: %w", i, ErrIrregular)
	}
	if out.ref, err = c.place(from, c.where[e.ID]); err != nil {
		return out, err
	}
	out.again = out.ref
	if like := c.next[e.ID]; like >= 0 {
		out.prior = true
		out.again, err = c.place(from, c.where[like])
	}
	return out, err
}

// place expresses a spot so that it moves with the depth: seen from a layer, neighbours count from there; others from the border of a zone they are near.
func (c *cutter) place(from int32, to spot) (place, error) {
	out := place{group: to.group, index: to.index}
	if to.layer < 0 {
		return out, nil
	}
	distance := int(to.layer - from)
	border := c.border(to.layer)
	switch {
	case from >= 0 && (distance >= -1 && distance <= 1 || c.border(from) < 0):
		out.how, out.offset = relative, int16(distance)
	case border >= 0:
		out.how, out.border, out.offset = anchored, int8(border), int16(int(to.layer)-c.borders[border])
	default:
		return out, fmt.Errorf("layer %d is referred to from outside: %w", to.layer, ErrIrregular)
	}
	return out, nil
}

// border is the one a layer can be counted from, -1 where it is in the middle of a zone that stretches.
func (c *cutter) border(layer int32) int {
	for z, n := range c.template.zones {
		low, high := c.borders[z], c.borders[z+1]
		switch l := int(layer); {
		case l < low || l >= high:
		case n < stretchable(c.template.period) || l < low+edge:
			return z
		case l >= high-edge:
			return z + 1
		}
	}
	return -1
}

// borders are the layers at which zones begin, and the end.
func borders(zones []int) []int {
	out := []int{0}
	for _, n := range zones {
		out = append(out, out[len(out)-1]+n)
	}
	return out
}
