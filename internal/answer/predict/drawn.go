package predict

import (
	"slices"

	"github.com/plimsoll/plimsoll/internal/memory/tape"
	"github.com/plimsoll/plimsoll/internal/units"
)

// drawing makes tapes of other batches from those of two, a and b, whose requests differ in sizes alone: these grow in proportion.
type drawing struct {
	a, b   int
	of     ran         // b
	first  *tape.Tape  // a
	margin units.Bytes // of convolutions, at a
}

// newDrawing compares two runs; nil where one failed, or more than sizes differs: a convolution that needs no workspace at one batch may need one at another.
func newDrawing(x, y ran, a, b int) *drawing {
	if x.err != nil || y.err != nil || a == b || !alikeTapes(x.tape, y.tape) {
		return nil
	}
	return &drawing{a, b, y, x.tape, x.conv.largest}
}

// alikeTapes tells whether two tapes differ in sizes only.
func alikeTapes(a, b *tape.Tape) bool {
	return slices.EqualFunc(a.Events, b.Events, func(x, y tape.Event) bool { return x.Kind == y.Kind && x.ID == y.ID && x.Elastic == y.Elastic })
}

// at is the run of a batch as the two suggest it.
func (d *drawing) at(n int) ran {
	along := func(x, y units.Bytes) units.Bytes {
		if x == y {
			return x
		}
		return max(x+(y-x)*units.Bytes(n-d.a)/units.Bytes(d.b-d.a), min(x, y, 1))
	}
	t := *d.of.tape
	t.Events = slices.Clone(t.Events)
	for i := range t.Events {
		t.Events[i].Size = along(d.first.Events[i].Size, t.Events[i].Size)
	}
	return ran{tape: &t, conv: convolutions{largest: along(d.margin, d.of.conv.largest)}}
}

// passing counts the events from i on in which a kernel asks for its workspace and gives it back: a buffer, or one with counters beside it. 0: there is none.
func passing(t *tape.Tape, i int) int {
	taken := func(k int) bool {
		return k < len(t.Events) && t.Events[k].Kind == tape.Alloc && t.Owners[t.Events[k].Owner].Category == tape.Workspace
	}
	back := func(k, of int) bool {
		return k < len(t.Events) && t.Events[k].Kind == tape.Free && t.Events[k].ID == t.Events[of].ID
	}
	switch {
	case taken(i) && back(i+1, i):
		return 2
	case taken(i) && taken(i+1) && back(i+2, i+1) && back(i+3, i):
		return 4
	}
	return 0
}
