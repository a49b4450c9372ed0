package textout

import (
	"fmt"

	"github.com/plimsoll/plimsoll/internal/answer/report"
	"github.com/plimsoll/plimsoll/internal/show/screen"
	"github.com/plimsoll/plimsoll/internal/units"
)

// maxChanges is how many lines of code a screen of changes names.
const maxChanges = 12

// Diff prints compare the memory of two runs.
func Diff(s *screen.Screen, d *report.Diff) {
	for _, line := range screen.Wrap(diffVerdict(d), s.Width()) {
		s.Line(s.Ink(screen.Bold, line))
	}
	s.Blank()
	c := diffColumns(s)
	s.Line("  ", screen.Pad("", c.name), screen.PadLeft("before", c.before), screen.PadLeft("after", c.after), screen.PadLeft("change", c.change))
	levelRow(s, "peak in use", d.Before.Peak.Requested, d.After.Peak.Requested)
	levelRow(s, "peak reserved by PyTorch", d.Before.Peak.Reserved, d.After.Peak.Reserved)
	if d.Before.PerStep != 0 || d.After.PerStep != 0 {
		levelRow(s, "growth per step", d.Before.PerStep, d.After.PerStep)
	}
	s.Blank()
	for _, c := range d.ByCategory {
		levelRow(s, c.Category, c.Before, c.After)
	}
	changed := false
	several := linesOfSeveralKinds(d.ByLine)
	for i, c := range d.ByLine {
		if c.Before == c.After || i == maxChanges {
			break
		}
		if !changed {
			s.Blank()
			s.Line(s.Ink(screen.Bold, "By line of code, at the two peaks"))
			changed = true
		}
		levelRow(s, placeName(c, several[*c.Where]), c.Before, c.After)
	}
	holderChanges(s, d)
	if !d.Before.Certain || !d.After.Certain {
		s.Blank()
		s.Paragraph(0, "One of the recordings has no stacks: categories are inferred and lines cannot be named.")
	}
}

func diffVerdict(d *report.Diff) string {
	change := d.After.Peak.Requested - d.Before.Peak.Requested
	switch {
	case change == 0 && d.After.Peak.Reserved != d.Before.Peak.Reserved:
		return fmt.Sprintf("The same amount is in use at the peak (%s), but %s is reserved by PyTorch instead of %s.", d.After.Peak.Requested, d.After.Peak.Reserved, d.Before.Peak.Reserved)
	case change == 0:
		return fmt.Sprintf("The peak is the same to the byte: %s.", d.After.Peak.Requested)
	case change > 0:
		return fmt.Sprintf("The peak grew by %s (%s), from %s to %s.", change, units.Percent(change, d.Before.Peak.Requested), d.Before.Peak.Requested, d.After.Peak.Requested)
	}
	return fmt.Sprintf("The peak shrank by %s (%s), from %s to %s.", -change, units.Percent(-change, d.Before.Peak.Requested), d.Before.Peak.Requested, d.After.Peak.Requested)
}

func levelRow(s *screen.Screen, name string, before, after units.Bytes) {
	ink, sign := screen.Plain, ""
	switch {
	case after > before:
		ink, sign = screen.Red, "+"
	case after < before:
		ink = screen.Green
	}
	delta := "="
	if after != before {
		delta = sign + (after - before).String()
	}
	c := diffColumns(s)
	s.Line("  ", screen.Pad(screen.Fit(screen.Clean(name), c.name-1), c.name), screen.PadLeft(before.String(), c.before), screen.PadLeft(after.String(), c.after),
		s.Ink(ink, screen.PadLeft(delta, c.change)))
}

// columns are the widths of the table of a comparison.
type columns struct{ name, before, after, change int }

func diffColumns(s *screen.Screen) columns {
	if s.Width() < 80 {
		return columns{s.Width() - 38, 11, 12, 13}
	}
	return columns{34, 12, 13, 15}
}

// linesOfSeveralKinds are lines that made memory of more than one category, and so are listed more than once.
func linesOfSeveralKinds(changes []report.Change) map[report.Place]bool {
	several, seen := map[report.Place]bool{}, map[report.Place]bool{}
	for _, c := range changes {
		several[*c.Where] = seen[*c.Where]
		seen[*c.Where] = true
	}
	return several
}

func placeName(c report.Change, withCategory bool) string {
	if c.Where.File == "" {
		return c.Where.Function + " " + c.Category
	}
	what := c.Where.Function
	if withCategory {
		what = c.Category
	}
	return fmt.Sprintf("%s:%d %s", base(c.Where.File), c.Where.Line, what)
}

// holderChanges says who held more or less, where the probe looked in both runs.
func holderChanges(s *screen.Screen, d *report.Diff) {
	for i, c := range d.ByHolder {
		if c.Before == c.After || i == maxHolders {
			break
		}
		if i == 0 {
			s.Blank()
			s.Line(s.Ink(screen.Bold, "By who holds it, at the ends of the two recordings"))
		}
		name := c.Name
		if c.CountAfter > 1 || c.CountBefore > 1 {
			name += fmt.Sprintf(" (%s → %s tensors)", units.Count(c.CountBefore), units.Count(c.CountAfter))
		}
		s.Hanging("  ", screen.Plain, screen.Clean(name))
		levelRow(s, "", c.Before, c.After)
	}
}
