package compare

import (
	"cmp"
	"slices"

	"github.com/plimsoll/plimsoll/internal/answer/report"
	"github.com/plimsoll/plimsoll/internal/evidence/holders"
	"github.com/plimsoll/plimsoll/internal/memory/timeline"
	"github.com/plimsoll/plimsoll/internal/units"
)

// holderKey tells holders of two runs apart: lines move when a file is edited, and are left out.
type holderKey struct {
	role                 holders.Role
	name, file, function string
	kind                 string // of what has no name
}

// byHolder compares who held what at the ends of two recordings; nil where the probe did not look in both.
func byHolder(a, b *timeline.Timeline) []report.HolderChange {
	if a.Holders == nil || b.Holders == nil {
		return nil
	}
	rows := map[holderKey]*report.HolderChange{}
	for _, h := range a.ByHolder() {
		r := rowOf(rows, &h.Holder)
		r.Before += h.Bytes
		r.CountBefore += len(h.IDs)
	}
	for _, h := range b.ByHolder() {
		r := rowOf(rows, &h.Holder)
		r.Name = h.Holder.Title()
		r.After += h.Bytes
		r.CountAfter += len(h.IDs)
	}
	out := make([]report.HolderChange, 0, len(rows))
	for _, r := range rows {
		out = append(out, *r)
	}
	size := func(c report.HolderChange) units.Bytes { return max(c.After-c.Before, c.Before-c.After) }
	slices.SortFunc(out, func(x, y report.HolderChange) int {
		return cmp.Or(cmp.Compare(size(y), size(x)), cmp.Compare(x.Name, y.Name))
	})
	return out
}

func rowOf(rows map[holderKey]*report.HolderChange, h *holders.Holder) *report.HolderChange {
	k := holderKey{role: h.Role, name: h.Name.Name}
	if h.In != nil {
		k.file, k.function = h.In.File, h.In.Function
	}
	if h.Name.Name == "" {
		k.kind = h.Kind
	}
	if rows[k] == nil {
		rows[k] = &report.HolderChange{Name: h.Title(), Role: string(h.Role)}
	}
	return rows[k]
}
