package viewdata

import (
	"cmp"
	"slices"
	"strings"

	"github.com/plimsoll/plimsoll/internal/evidence/holders"
	"github.com/plimsoll/plimsoll/internal/memory/timeline"
	"github.com/plimsoll/plimsoll/internal/units"
)

// Bands of what has no holder.
const (
	goneBefore = "freed before the inspection"
	otherHeld  = "other holders"
	noModule   = "no module"
)

// holders gives the names that hold most at the end a band each; what was freed before the probe looked has none.
func (x *Index) holders(g *Grouping) {
	x.bands(g, otherHeld, func(h timeline.Held, _ int) string { return h.Holder.Title() })
}

// modules does the same by the module that memory belongs to.
func (x *Index) modules(g *Grouping) {
	x.bands(g, "other modules", func(h timeline.Held, id int) string {
		if m := moduleOf(&h.Holder, x.T.Holders.Names[id]); m != "" {
			return m
		}
		return noModule
	})
}

// bands puts every allocation under the name that nameOf gives it.
func (x *Index) bands(g *Grouping, rest string, nameOf func(h timeline.Held, id int) string) {
	bytes, names := map[string]units.Bytes{}, make([]string, len(x.T.Died))
	for _, h := range x.T.ByHolder() {
		for _, id := range h.IDs {
			names[id] = nameOf(h, id)
			bytes[names[id]] += x.T.Size(id)
		}
	}
	order := make([]string, 0, len(bytes))
	for name := range bytes {
		order = append(order, name)
	}
	slices.SortFunc(order, func(a, b string) int { return cmp.Or(cmp.Compare(bytes[b], bytes[a]), cmp.Compare(a, b)) })
	g.Bands = append(order[:min(len(order), maxLines)], rest, goneBefore)
	index := map[string]uint8{"": uint8(len(g.Bands) - 1)}
	for i, name := range g.Bands[:len(g.Bands)-2] {
		index[name] = uint8(i)
	}
	for id, name := range names {
		band, ok := index[name]
		if !ok {
			band = uint8(len(g.Bands) - 2)
		}
		g.band[id] = band
	}
}

// moduleOf is the module a storage belongs to: of a parameter the one that has it, of what is saved for backward the one that saved it.
func moduleOf(h *holders.Holder, name string) string {
	switch h.Role {
	case holders.Parameter, holders.Gradient, holders.Optimizer, holders.Buffer:
		if i := strings.LastIndexByte(name, '.'); i >= 0 {
			return name[:i]
		}
	case holders.Saved:
		if len(h.Names) > 0 {
			return name
		}
		return h.Module
	}
	return ""
}

// Holding is who keeps an allocation alive at the end.
type Holding struct {
	Title string   `json:"title"`
	Name  string   `json:"name,omitempty"` // of this storage, where it has its own
	Part  string   `json:"part,omitempty"`
	Also  []string `json:"also,omitempty"`
}

// holding describes the holder of an allocation; nil where none is known.
func (x *Index) holding(id int) *Holding {
	h := x.T.Holders.Holder(id)
	if h == nil {
		return nil
	}
	out := &Holding{Title: h.Title(), Part: h.Part()}
	if name := x.T.Holders.Names[id]; name != h.Name.Name {
		out.Name = name
	}
	for _, a := range h.Also {
		out.Also = append(out.Also, a.String())
	}
	return out
}

// heldAs tells whether a word, in small letters, is found in the name of an allocation's holder.
func (x *Index) heldAs(id int, word string) bool {
	h := x.T.Holders.Holder(id)
	return h != nil && (strings.Contains(strings.ToLower(h.Title()), word) || strings.Contains(strings.ToLower(x.T.Holders.Names[id]), word))
}
