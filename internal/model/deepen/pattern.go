package deepen

import (
	"slices"

	"github.com/plimsoll/plimsoll/internal/memory/tape"
	"github.com/plimsoll/plimsoll/internal/units"
)

// Pattern is how the third step of a deep model is made of the events of a recording. It holds for every recording that differs from the first one in sizes
// alone, such as those of batches of other lengths: these need not be cut, nor written.
type Pattern struct {
	like  Recording
	equal [][2]int      // events of the recording whose sizes Cut found equal
	third []int         // by allocation of the third step: the event of the recording; -1: an optimizer's
	later []units.Bytes // sizes of the optimizer's allocations, in order
}

// Pattern describes the third step of what Write writes. rec is the recording that the template was cut from.
func (r *Template) Pattern(rec Recording, zones []int, o Turns) (*Pattern, error) {
	w := &writer{r: r}
	if err := w.arrange(zones); err != nil {
		return nil, err
	}
	p := &Pattern{like: rec, equal: slices.Concat(r.carried, r.middles())}
	p.groups(w, r.pieces[3], r.pieces[4])
	for _, e := range o.Later {
		if e.Kind == tape.Alloc {
			p.third, p.later = append(p.third, -1), append(p.later, e.Size)
		}
	}
	p.groups(w, r.pieces[4], len(r.groups))
	return p, nil
}

// middles are the allocations that check compares, in pairs.
func (r *Template) middles() [][2]int {
	var out [][2]int
	for g := range r.groups {
		if !r.groups[g].sweep {
			continue
		}
		parts, starts, from := r.groups[g].parts, r.groups[g].starts, 0
		for _, n := range r.zones {
			for l := from + edge; l+r.period < from+n-edge; l++ {
				for k := range parts[l] {
					if parts[l][k].kind == tape.Alloc {
						out = append(out, [2]int{starts[l] + k, starts[l+r.period] + k})
					}
				}
			}
			from += n
		}
	}
	return out
}

// groups adds the allocations of some groups, in the order in which writer.groups writes them.
func (p *Pattern) groups(w *writer, first, end int) {
	for i := first; i < end; i++ {
		g := &w.r.groups[i]
		if !g.sweep {
			p.part(g, 0)
			continue
		}
		for l := range w.layers(g) {
			p.part(g, int(w.from[l]))
		}
	}
}

func (p *Pattern) part(g *group, layer int) {
	for k := range g.parts[layer] {
		if g.parts[layer][k].kind == tape.Alloc {
			p.third = append(p.third, g.starts[layer]+k)
		}
	}
}

// Sizes are those of the third step's allocations in a recording that has the pattern; false: it has not.
func (p *Pattern) Sizes(rec Recording) ([]units.Bytes, bool) {
	if !p.matches(rec) {
		return nil, false
	}
	events := rec.Tape.Events
	for _, pair := range p.equal {
		if events[pair[0]].Size != events[pair[1]].Size {
			return nil, false
		}
	}
	out, own := make([]units.Bytes, len(p.third)), 0
	for i, at := range p.third {
		if at < 0 {
			out[i] = p.later[own]
			own++
			continue
		}
		out[i] = events[at].Size
	}
	return out, true
}

// matches tells whether a recording differs in sizes alone.
func (p *Pattern) matches(rec Recording) bool {
	a, b := p.like.Tape, rec.Tape
	if len(a.Events) != len(b.Events) || a.Allocs != b.Allocs || p.like.Made != rec.Made || !slices.Equal(p.like.Steps, rec.Steps) || !slices.Equal(p.like.Zones, rec.Zones) || p.like.Period != rec.Period {
		return false
	}
	for i := range a.Events {
		e := a.Events[i]
		e.Size = b.Events[i].Size
		if e != b.Events[i] {
			return false
		}
	}
	return slices.Equal(p.like.Layers, rec.Layers) && slices.Equal(a.Owners, b.Owners) && slices.Equal(a.Moments, b.Moments)
}
