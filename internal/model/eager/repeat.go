package eager

import (
	"cmp"
	"slices"

	"github.com/plimsoll/plimsoll/internal/memory/tape"
	"github.com/plimsoll/plimsoll/internal/units"
)

// repeat appends the step that begins at an event once more, as running it again would record it: what it makes gets new IDs, and what it lets go of the step before
// becomes the same thing of its own. False, with the tape as it was, where it leaves something else than the step before left: then the next step is not like it.
func repeat(t *tape.Tape, from int) bool {
	type key struct {
		owner uint32
		size  units.Bytes
	}
	to, base := len(t.Events), uint32(t.Allocs)
	var old []tape.Event // of the step before
	var gone []bool
	for i := from; i < to; i++ {
		switch e := &t.Events[i]; {
		case e.Kind == tape.Alloc:
			base = min(base, e.ID)
			gone = append(gone, false)
		case e.Kind == tape.Free && e.ID >= base:
			gone[e.ID-base] = true
		case e.Kind == tape.Free:
			old = append(old, *e)
		}
	}
	left := map[key][]uint32{}
	count := 0
	for i := from; i < to; i++ {
		if e := &t.Events[i]; e.Kind == tape.Alloc && !gone[e.ID-base] {
			k := key{e.Owner, e.Size}
			left[k] = append(left[k], e.ID)
			count++
		}
	}
	if count != len(old) {
		return false
	}
	slices.SortFunc(old, func(a, b tape.Event) int { return cmp.Compare(a.ID, b.ID) })
	mine := make(map[uint32]uint32, len(old))
	for _, e := range old {
		k := key{e.Owner, e.Size}
		if len(left[k]) == 0 {
			return false
		}
		mine[e.ID], left[k] = left[k][0], left[k][1:]
	}
	shift := uint32(t.Allocs) - base
	t.Events = slices.Grow(t.Events, to-from)
	for _, e := range t.Events[from:to] {
		switch {
		case e.Kind == tape.Mark:
			m := t.Moments[e.Owner]
			m.Step++
			e.Owner = uint32(len(t.Moments))
			t.Moments = append(t.Moments, m)
		case e.ID >= base:
			e.ID += shift
		case e.Kind == tape.Free:
			e.ID = mine[e.ID]
		}
		t.Events = append(t.Events, e)
	}
	t.Allocs += int(shift)
	return true
}
