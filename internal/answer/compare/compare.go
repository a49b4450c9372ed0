// Package compare tells compare the memory of two runs.
//
// It takes the timelines of two recordings and returns a report.Diff: what was in use at each peak, by category and by line of
// code, sorted by what grew most. Lines are matched by file and function and, where a file was edited in between, by
// function alone; what has no counterpart is new or gone. Sizes of several stacks that end in the same user line are added up.
package compare

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/plimsoll/plimsoll/internal/answer/report"
	"github.com/plimsoll/plimsoll/internal/memory/tape"
	"github.com/plimsoll/plimsoll/internal/memory/timeline"
	"github.com/plimsoll/plimsoll/internal/units"
)

// Timelines compares the peaks of two recordings.
func Timelines(a, b *timeline.Timeline) *report.Diff {
	d := &report.Diff{
		Schema: report.DiffSchema,
		Before: side(a), After: side(b),
		ByCategory: []report.Change{}, ByLine: []report.Change{},
	}
	ca, cb := a.ByCategory(a.Peak.Event), b.ByCategory(b.Peak.Event)
	for c := range tape.Categories {
		if ca[c] != 0 || cb[c] != 0 {
			d.ByCategory = append(d.ByCategory, report.Change{Category: tape.Category(c).String(), Before: ca[c], After: cb[c]})
		}
	}
	d.ByLine = match(lines(a), lines(b))
	d.ByHolder = byHolder(a, b)
	sortChanges(d.ByCategory)
	sortChanges(d.ByLine)
	return d
}

func side(t *timeline.Timeline) report.Side {
	s := report.Side{
		Device: t.Device, Events: t.Trace.Len(), Peak: report.Level(t.Peak.Level), End: report.Level(t.End),
		Steps: len(t.Steps), Certain: t.Certain,
	}
	for _, g := range t.Growing(4) {
		s.PerStep += g.PerStep
	}
	return s
}

// line is a place of the user's code, with what it asked for.
type line struct {
	place    report.Place
	category tape.Category
}

func lines(t *timeline.Timeline) map[line]report.Amount {
	out := map[line]report.Amount{}
	for _, g := range t.ByStack(t.Peak.Event) {
		l := line{category: g.Category}
		if f, ok := t.Origins.UserFrame(g.Stack); ok {
			l.place = report.Place{File: f.File, Line: f.Line, Function: f.Function}
		} else if g.Stack != 0 || t.Origins.Recorded {
			l.place.Function = "(autograd engine)"
		} else {
			l.place.Function = "(no stack)"
		}
		a := out[l]
		a.Bytes += g.Bytes
		a.Count += g.Count
		out[l] = a
	}
	return out
}

// match pairs lines that are the same; then, of what is left, lines of one function, in order of line number.
func match(a, b map[line]report.Amount) []report.Change {
	out := []report.Change{}
	var goneKeys, newKeys []line
	for l, before := range a {
		if after, ok := b[l]; ok {
			out = append(out, change(l, before, after))
		} else {
			goneKeys = append(goneKeys, l)
		}
	}
	for l := range b {
		if _, ok := a[l]; !ok {
			newKeys = append(newKeys, l)
		}
	}
	sortLines(goneKeys)
	sortLines(newKeys)
	for _, l := range newKeys {
		i := slices.IndexFunc(goneKeys, func(o line) bool {
			return o.category == l.category && o.place.File == l.place.File && o.place.Function == l.place.Function
		})
		if i < 0 {
			out = append(out, change(l, report.Amount{}, b[l]))
			continue
		}
		moved := change(l, a[goneKeys[i]], b[l])
		moved.WasLine = goneKeys[i].place.Line
		out = append(out, moved)
		goneKeys = slices.Delete(goneKeys, i, i+1)
	}
	for _, l := range goneKeys {
		out = append(out, change(l, a[l], report.Amount{}))
	}
	return out
}

func change(l line, before, after report.Amount) report.Change {
	return report.Change{
		Category: l.category.String(), Where: &l.place,
		Before: before.Bytes, After: after.Bytes, CountBefore: before.Count, CountAfter: after.Count,
	}
}

func sortLines(ls []line) {
	slices.SortFunc(ls, func(x, y line) int {
		return cmp.Or(cmp.Compare(x.place.File, y.place.File), cmp.Compare(x.place.Line, y.place.Line),
			cmp.Compare(x.place.Function, y.place.Function), cmp.Compare(x.category, y.category))
	})
}

// sortChanges puts what changed most first.
func sortChanges(cs []report.Change) {
	size := func(c report.Change) units.Bytes { return max(c.After-c.Before, c.Before-c.After) }
	slices.SortFunc(cs, func(x, y report.Change) int {
		return cmp.Or(cmp.Compare(size(y), size(x)), cmp.Compare(x.Category, y.Category), cmp.Compare(where(x), where(y)))
	})
}

// where tells changes of one size apart, so that their order is always the same.
func where(c report.Change) string {
	if c.Where == nil {
		return ""
	}
	return fmt.Sprintf("%s:%08d %s", c.Where.File, c.Where.Line, c.Where.Function)
}
