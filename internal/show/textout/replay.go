package textout

import (
	"fmt"
	"slices"
	"strings"

	"github.com/plimsoll/plimsoll/internal/answer/report"
	"github.com/plimsoll/plimsoll/internal/show/screen"
	"github.com/plimsoll/plimsoll/internal/units"
)

// Replay renders the answer of plimsoll replay.
func Replay(s *screen.Screen, r *report.Replay) {
	replayFidelity(s, r)
	replayLimit(s, r)
	s.Blank()
	replayTable(s, r)
	s.Blank()
	replayAdvice(s, r)
	replayFragmentation(s, r)
	replayNotes(s, r)
}

func replayFidelity(s *screen.Screen, r *report.Replay) {
	f := &r.Fidelity
	if f.Exact {
		s.Paragraph(0, fmt.Sprintf("The recorded run is reproduced exactly: %s events, every address equal.", units.Count(f.Events)))
		return
	}
	s.Hanging("Not reproduced: ", screen.Red, fmt.Sprintf("%s of %s addresses are equal.", units.Count(f.AddressMatches), units.Count(f.Allocations)))
	if f.FirstDivergence != nil {
		s.Paragraph(0, fmt.Sprintf("At event %s %s. Take what follows as a hint only.", units.Count(*f.FirstDivergence), screen.Clean(f.Divergence)))
	}
}

// replayLimit says what bounded the recorded run.
func replayLimit(s *screen.Screen, r *report.Replay) {
	rec := &r.Recorded
	var how string
	switch rec.LimitIs {
	case "cap":
		how = fmt.Sprintf("It was limited to %s by the program", rec.Limit)
		if rec.OOMs == 0 {
			how = fmt.Sprintf("It released memory as if limited to %s", rec.Limit)
		}
		if low, high := rec.LimitLow.String(), rec.LimitHigh.String(); rec.LimitHigh > 0 && low != high {
			how += fmt.Sprintf(" (the history shows a cap between %s and %s)", low, high)
		}
		how += "."
	case "device":
		how = fmt.Sprintf("The device had %s available.", rec.Limit)
	default:
		return
	}
	if rec.OOMs > 0 {
		how += " It ran out of memory."
	}
	s.Paragraph(0, how)
}

const (
	settingWidth  = 36
	numberWidth   = 10
	smallestWidth = 11
)

func replayTable(s *screen.Screen, r *report.Replay) {
	reserved := "reserved"
	if r.CapacityIs == "recorded" {
		reserved = "unlimited"
	}
	from := "runs from"
	if r.Recorded.Partial {
		from = "at least"
	}
	head := settingName(s, "setting") + screen.PadLeft(reserved, numberWidth) + screen.PadLeft(from, smallestWidth)
	if r.Capacity > 0 {
		head += "  at " + r.Capacity.Short()
	}
	for line := range strings.SplitSeq(head, "\n") {
		s.Line(s.Ink(screen.Faint, line))
	}
	for i := range r.Settings {
		replayRow(s, r, &r.Settings[i])
	}
}

func replayRow(s *screen.Screen, r *report.Replay, row *report.ReplaySetting) {
	name := row.Conf
	if row.Recorded {
		name += " (as recorded)"
		if room := settingWidth - 15; !narrow(s) {
			name = screen.Fit(row.Conf, room) + " (as recorded)"
		}
	}
	line := settingName(s, screen.Clean(name)) + screen.PadLeft(row.Peak.Reserved.Short(), numberWidth) + screen.PadLeft(smallest(row), smallestWidth)
	switch {
	case r.Capacity == 0:
	case row.OOM == nil && r.Recorded.Partial:
		line += "  " + s.Ink(screen.Green, "gets past it")
	case row.OOM == nil:
		line += "  " + s.Ink(screen.Green, "runs")
	default:
		line += "  " + s.Ink(screen.Red, "OOM at event "+units.Count(row.OOM.Event))
	}
	for part := range strings.SplitSeq(line, "\n") {
		s.Line(part)
	}
}

// narrow tells a terminal in which a setting and its numbers need a line each.
func narrow(s *screen.Screen) bool { return s.Width() < 80 }

// settingName is the first column of the table: padded, or on a line of its own.
func settingName(s *screen.Screen, name string) string {
	if narrow(s) {
		return "  " + screen.Fit(name, s.Width()-2) + "\n    "
	}
	return "  " + screen.Pad(screen.Fit(name, settingWidth-1), settingWidth)
}

func smallest(row *report.ReplaySetting) string {
	if row.Smallest == 0 {
		return "–"
	}
	return row.Smallest.Short()
}

func replayAdvice(s *screen.Screen, r *report.Replay) {
	inUse := fmt.Sprintf("At most %s was in use at once.", r.InUse)
	if r.Recorded.Partial {
		inUse = fmt.Sprintf("At most %s was in use at once before the run failed. The history ends there: the whole step needs at least this much.", r.InUse)
	}
	if r.Helps && r.Environment != "" {
		s.Paragraph(0, inUse+" Set this before you start the script:")
		s.Line("  ", s.Ink(screen.Bold, "export "+r.Environment))
		for _, w := range r.Settings[0].Warnings {
			s.Hanging("  but ", screen.Yellow, w)
		}
		return
	}
	switch {
	case len(r.Settings) > 0 && r.Settings[0].OOM != nil:
		s.Paragraph(0, inUse+" None of these settings makes it run: the job has to use less memory.")
	case r.Helps:
		s.Paragraph(0, inUse+" PyTorch's default is better than the recorded setting: unset it.")
	default:
		s.Paragraph(0, inUse+" No other setting holds much less than the recorded one.")
	}
}

// replayFragmentation says where unused memory sat, if it was a tenth of what was held. Expandable segments give unused
// pages back one by one, so that there is nothing to tell of them.
func replayFragmentation(s *screen.Screen, r *report.Replay) {
	f := &r.Fragmentation
	unused := f.Reserved - f.InUse
	if 10*unused < f.Reserved || unused <= 0 || f.Cached+f.Pinned == 0 {
		return
	}
	s.Blank()
	when := "When most was held"
	if r.Recorded.OOMs > 0 {
		when = "When it failed"
	}
	s.Paragraph(0, fmt.Sprintf("%s (event %s), %s of %s was unused: %s in empty segments, which PyTorch releases before it fails, and %s in segments that a few blocks keep occupied.",
		when, units.Count(f.Event), unused, f.Reserved, f.Cached, f.Pinned))
	for i, p := range f.Pins {
		if i == 3 {
			break
		}
		where := "a line the history does not name"
		if p.Where != nil {
			where = fmt.Sprintf("%s:%d %s", p.Where.File, p.Where.Line, p.Where.Function)
		}
		s.Hanging(screen.PadLeft(p.Pinned.Short(), 10)+"  ", screen.Plain,
			fmt.Sprintf("kept by %s of %s, from %s", blocks(p.Blocks), p.Bytes, screen.Clean(where)))
	}
}

func blocks(n int) string {
	if n == 1 {
		return "1 block"
	}
	return units.Count(n) + " blocks"
}

func replayNotes(s *screen.Screen, r *report.Replay) {
	notes := settingNotes(r)
	if r.TorchIs == "fit" {
		notes = append(notes, fmt.Sprintf("The file does not say which PyTorch wrote it; the rules of %s were used (--torch sets it).", r.Torch))
	}
	for _, w := range r.Warnings {
		notes = append(notes, sentence(screen.Clean(w))+".")
	}
	if len(notes) > 0 {
		s.Blank()
	}
	for _, n := range notes {
		s.Hanging("note  ", screen.Faint, n)
	}
}

// settingNotes says once what holds for several settings.
func settingNotes(r *report.Replay) []string {
	var other, warnings []string
	for i := range r.Settings {
		row := &r.Settings[i]
		low, high := min(row.ReservedOther, row.Peak.Reserved), max(row.ReservedOther, row.Peak.Reserved)
		if 200*(high-low) > high { // more than half a percent
			other = append(other, fmt.Sprintf("%s for %s", row.ReservedOther, screen.Clean(row.Conf)))
		}
		for _, w := range row.Warnings {
			if text := sentence(screen.Clean(w)) + "."; !slices.Contains(warnings, text) && (i > 0 || !r.Helps) {
				warnings = append(warnings, text)
			}
		}
	}
	if len(other) > 0 {
		warnings = append(warnings, "A driver that hands addresses out in the opposite order would reserve "+strings.Join(other, ", ")+".")
	}
	return warnings
}

// sentence begins a sentence; the name of a setting stays as it is.
func sentence(text string) string {
	word, _, _ := strings.Cut(text, " ")
	if text == "" || text[0] < 'a' || text[0] > 'z' || strings.ContainsAny(word, "_:") {
		return text
	}
	return string(text[0]-'a'+'A') + text[1:]
}
