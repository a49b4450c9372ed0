package timeline

import (
	"cmp"
	"slices"

	"github.com/plimsoll/plimsoll/internal/memory/tape"
	"github.com/plimsoll/plimsoll/internal/units"
	"github.com/plimsoll/plimsoll/snapshot"
)

// Group is the memory alive at an instant that one stack asked for.
type Group struct {
	Stack    snapshot.StackID
	Category tape.Category
	Bytes    units.Bytes
	Count    int
	Largest  units.Bytes
}

// ByCategory sums what is alive after a tape event by what it is for.
func (t *Timeline) ByCategory(event int) [tape.Categories]units.Bytes {
	var sums [tape.Categories]units.Bytes
	for id := range t.Died {
		if t.Alive(id, event) {
			sums[t.Category[id]] += t.Size(id)
		}
	}
	return sums
}

// ByStack groups what is alive after a tape event, largest first.
func (t *Timeline) ByStack(event int) []Group {
	type key struct {
		stack    snapshot.StackID
		category tape.Category
	}
	index := map[key]int{}
	var groups []Group
	for id := range t.Died {
		if !t.Alive(id, event) {
			continue
		}
		k := key{t.Stack[id], t.Category[id]}
		i, ok := index[k]
		if !ok {
			i = len(groups)
			index[k] = i
			groups = append(groups, Group{Stack: k.stack, Category: k.category})
		}
		size := t.Size(id)
		groups[i].Bytes += size
		groups[i].Count++
		groups[i].Largest = max(groups[i].Largest, size)
	}
	slices.SortStableFunc(groups, func(a, b Group) int { return cmp.Compare(b.Bytes, a.Bytes) })
	return groups
}
