package explain

import (
	"cmp"
	"slices"

	"github.com/plimsoll/plimsoll/internal/answer/diagnose"
	"github.com/plimsoll/plimsoll/internal/answer/report"
	"github.com/plimsoll/plimsoll/internal/evidence/holders"
	"github.com/plimsoll/plimsoll/internal/memory/timeline"
	"github.com/plimsoll/plimsoll/internal/units"
)

// partLimit is how many parts of a holder a report names.
const partLimit = 5

// Holders says who keeps what is alive at the end of a recording; nil where the probe did not look.
func Holders(c *diagnose.Case) ([]report.Holder, *report.Walk) {
	if c.Holders == nil {
		return nil, nil
	}
	f := c.Holders.File
	w := &report.Walk{When: f.When, Seconds: f.Walk.Seconds, Complete: f.Walk.Complete, Step: f.Step, Phase: f.Phase}
	var known units.Bytes
	rows := []report.Holder{}
	for _, group := range together(c.ByHolder()) {
		h := Holder(group)
		rows = append(rows, h)
		if h.Role != "" {
			known += h.Bytes
		}
	}
	if c.Holders.Alive > 0 {
		w.Share = float64(known) / float64(c.Holders.Alive)
	}
	slices.SortStableFunc(rows, func(a, b report.Holder) int { return cmp.Compare(b.Bytes, a.Bytes) })
	return rows, w
}

// together joins what one name keeps for one purpose: the operations and modules of a graph become its parts.
func together(all []timeline.Held) [][]timeline.Held {
	type key struct {
		role     holders.Role
		name, in string
	}
	index := map[key]int{}
	var out [][]timeline.Held
	for _, h := range all {
		k := key{role: h.Holder.Role, name: h.Holder.Name.Name}
		if h.Holder.In != nil {
			k.in = h.Holder.In.String()
		}
		if h.Holder.Role == holders.Library || h.Holder.Role == holders.Temporary {
			k.name += h.Holder.Kind
		}
		i, ok := index[k]
		if !ok {
			i = len(out)
			index[k] = i
			out = append(out, nil)
		}
		out[i] = append(out[i], h)
	}
	return out
}

// Holder describes the parts of one holder, which come largest first.
func Holder(parts []timeline.Held) report.Holder {
	first := parts[0].Holder
	h := report.Holder{Name: first.Title(), Role: string(first.Role), Type: first.Type}
	if first.In != nil {
		h.Where = &report.Place{File: first.In.File, Line: first.In.Line, Function: first.In.Function}
	}
	for _, p := range parts {
		h.Bytes += p.Bytes
		h.Count += len(p.IDs)
		h.PerStep += p.PerStep
		h.TensorsPerStep += p.Each
		if text := p.Holder.Part(); text != "" && len(h.Parts) < partLimit && !slices.Contains(h.Parts, text) {
			h.Parts = append(h.Parts, text)
		}
		for _, a := range p.Holder.Also {
			if text := a.String(); !slices.Contains(h.Also, text) {
				h.Also = append(h.Also, text)
			}
		}
	}
	return h
}
