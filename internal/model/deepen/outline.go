package deepen

import (
	"github.com/plimsoll/plimsoll/internal/memory/tape"
	"github.com/plimsoll/plimsoll/internal/units"
)

// Instant is what is asked for at a moment, by category.
type Instant struct {
	Held     [tape.Categories]units.Bytes
	Backward bool // a backward pass has begun before
}

// Outline are the moments of a template's passes at which some mixture of categories is highest: whatever grows with each of them is highest at one.
type Outline struct {
	Load, First, Later []Instant                       // while the model is loaded, in the first step, in every further one
	Settled            [2][tape.Categories]units.Bytes // when the optimizer's first and second step begin
	Saved              units.Bytes                     // activations of layers at the end of the first forward pass
	Beside             tape.Beside                     // the first gradient, and what is there beside it
}

// Sketch is the same for an optimizer's turns, beside what the passes hold.
type Sketch struct {
	Made, Kept   [tape.Categories]units.Bytes // what is there once it is made, and after its first step
	First, Later []Instant
}

// Highest is the largest value that a measure of moments reaches. It must grow with what every category holds.
func (o Outline) Highest(s Sketch, value func(Instant) units.Bytes) units.Bytes {
	var best units.Bytes
	scan := func(moments []Instant, beside [tape.Categories]units.Bytes) {
		for _, m := range moments {
			best = max(best, value(m.plus(beside)))
		}
	}
	scan(o.Load, [tape.Categories]units.Bytes{})
	scan(o.First, s.Made)
	scan(s.First, o.Settled[0])
	scan(o.Later, s.Kept)
	scan(s.Later, o.Settled[1])
	return best
}

// plus adds what is held beside; the optimizer's turns come after a backward pass.
func (m Instant) plus(beside [tape.Categories]units.Bytes) Instant {
	for c, b := range beside {
		m.Held[c] += b
	}
	return m
}

// Total is all that is asked for.
func (m Instant) Total() units.Bytes {
	var sum units.Bytes
	for _, b := range m.Held {
		sum += b
	}
	return sum
}

// Outline walks a template with so many layers in each zone.
func (r *Template) Outline(zones []int) (Outline, error) {
	w := &writer{r: r}
	if err := w.arrange(zones); err != nil {
		return Outline{}, err
	}
	var out Outline
	v := &viewer{r: r}
	p := r.pieces
	out.Load = v.watch(w, p[0], p[1])
	out.First = v.watch(w, p[1], p[2])
	out.Settled[0] = v.now.Held
	out.First = append(out.First, v.watch(w, p[2], p[3])...)
	out.Later = v.watch(w, p[3], p[4])
	out.Settled[1] = v.now.Held
	out.Later = append(out.Later, v.watch(w, p[4], len(r.groups))...)
	out.Saved, out.Beside = v.saved, v.first
	return out, nil
}

// viewer follows what is held.
type viewer struct {
	r      *Template
	now    Instant
	inside units.Bytes // activations of layers
	saved  units.Bytes
	first  tape.Beside
	rising bool
	tops   tops
}

// watch walks some groups and gives the moments that no other surpasses.
func (v *viewer) watch(w *writer, first, end int) []Instant {
	v.tops = nil
	for i := first; i < end; i++ {
		g := &v.r.groups[i]
		if !g.sweep {
			v.see(g.parts[0])
			continue
		}
		for l := range w.layers(g) {
			v.see(g.parts[w.from[l]])
		}
	}
	v.note()
	return v.tops.moments()
}

func (v *viewer) see(events []event) {
	for i := range events {
		e := &events[i]
		switch e.kind {
		case tape.Alloc:
			v.hold(&v.r.names[e.owner.index], e.size)
			v.rising = true
		case tape.Free:
			v.note()
			v.hold(&v.r.names[e.owner.index], -e.size)
		case tape.Mark:
			v.note()
			if v.r.moments[e.owner.index].Phase == "backward" {
				v.now.Backward = true
				if v.saved == 0 {
					v.saved = max(v.inside, 1)
				}
			}
		}
	}
}

func (v *viewer) hold(n *name, size units.Bytes) {
	v.now.Held[n.category] += size
	v.first.See(n.category, size)
	if n.category == tape.Activations && n.inLayer {
		v.inside += size
	}
}

// note keeps the moment where it is a top.
func (v *viewer) note() {
	if v.rising {
		v.rising = false
		v.tops.add(v.now)
	}
}

// Sketch walks an optimizer's turns.
func (t Turns) Sketch() Sketch {
	var out Sketch
	v := &turning{owners: t.Owners}
	v.watch(t.Made)
	out.Made = v.now.Held
	v.now.Backward = true
	out.First = v.watch(t.First)
	out.Kept = v.now.Held
	out.Later = v.watch(t.Later)
	return out
}

// turning follows an optimizer's turns.
type turning struct {
	owners []tape.Owner
	now    Instant
}

func (v *turning) watch(events []tape.Event) []Instant {
	var tops tops
	rising := false
	for i := range events {
		e := &events[i]
		category := v.owners[e.Owner].Category
		if e.Kind == tape.Alloc {
			v.now.Held[category] += e.Size
			rising = true
			continue
		}
		if rising {
			tops.add(v.now)
			rising = false
		}
		v.now.Held[category] -= e.Size
	}
	if rising {
		tops.add(v.now)
	}
	return tops.moments()
}
