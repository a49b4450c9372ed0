package textout

import (
	"fmt"
	"strings"

	"github.com/plimsoll/plimsoll/internal/answer/report"
	"github.com/plimsoll/plimsoll/internal/show/screen"
	"github.com/plimsoll/plimsoll/internal/units"
)

// shownPlans is how many plans a screen has room for.
const shownPlans = 5

// Fit prints the answer of plimsoll fit.
func Fit(s *screen.Screen, f *report.Fit, verbose bool) {
	card := f.Card
	if f.GPUs > 1 {
		card = fmt.Sprintf("%d × %s", f.GPUs, f.Card)
	}
	s.Paragraph(0, screen.Clean(fmt.Sprintf("%s · %s parameters · effective batch %d · %s (%s)", f.Title, shortCount(f.Params), f.Effective, card, f.Capacity.Short())))
	s.Blank()
	methodTable(s, f)
	var fitting []report.Plan
	for _, p := range f.Plans {
		if p.Fits {
			fitting = append(fitting, p)
		}
	}
	if len(fitting) == 0 {
		nothingFits(s, f)
	} else {
		best := fitting[0]
		s.Paragraph(0, fmt.Sprintf("%s configurations; the fastest that fits takes about %s per step (±%.0f %%).%s", units.Count(f.Considered), milliseconds(best.StepMS), 100*best.Uncertainty, sameTraining(fitting)))
		s.Blank()
		planTable(s, fitting[:min(len(fitting), shownPlans)])
		planDetails(s, f, best)
	}
	if f.Numerics != nil {
		s.Blank()
		n := f.Numerics
		text := fmt.Sprintf("With --allow numerics: %s, %d × %d, %s, checkpointing %s", n.Precision, n.MicroBatch, n.Accumulate, n.Optimizer, checkpointed(*n))
		if len(fitting) > 0 {
			text += fmt.Sprintf(": %.2f× the time", n.StepMS/fitting[0].StepMS)
		} else {
			text += " fits: about " + milliseconds(n.StepMS) + " a step"
		}
		s.Paragraph(0, text+".")
	}
	for i, w := range f.Warnings {
		if i == 0 {
			s.Blank()
		}
		s.Hanging("  note     ", screen.Yellow, w)
	}
	fitAssumptions(s, f, verbose)
	script(s, f.Script)
	next(s, f.Next)
}

// script says the first plan in the words of the script that was captured.
func script(s *screen.Screen, c *report.ScriptChange) {
	switch {
	case c == nil:
		return
	case c.Command == "" && len(c.Code) == 0:
		s.Blank()
		s.Line("The script already runs as plan 1 says.")
		return
	case c.Command != "":
		s.Blank()
		s.Line(s.Ink(screen.Bold, "Run plan 1: "), "the script has these options")
		for _, line := range commandLines(screen.Clean(c.Command), s.Width()) {
			s.Line(line)
		}
	}
	if len(c.Code) > 0 {
		s.Blank()
		s.Line(s.Ink(screen.Bold, "Change in the code: "), "the script has no option for it")
		for _, line := range c.Code {
			s.Hanging("  · ", screen.Plain, screen.Clean(line))
		}
	}
}

// fitAssumptions says what the numbers rest on: in one line, or all of it.
func fitAssumptions(s *screen.Screen, f *report.Fit, verbose bool) {
	if len(f.Assumptions) == 0 {
		return
	}
	s.Blank()
	if !verbose {
		text := "Memory is predicted, times are estimates."
		if f.GPUs > 1 {
			text = "Memory and times on several cards are computed, not measured."
		}
		s.Paragraph(0, fmt.Sprintf("%s --verbose lists what they assume (%d).", text, len(f.Assumptions)))
		return
	}
	for _, a := range f.Assumptions {
		s.Hanging("  assumed  ", screen.Faint, screen.Clean(a))
	}
}

// methodTable compares ways to fine-tune.
func methodTable(s *screen.Screen, f *report.Fit) {
	if len(f.Methods) == 0 {
		return
	}
	s.Line(s.Ink(screen.Faint, "  method     least  batch up to  longest sample  tokens/s"))
	chosen := ""
	for _, m := range f.Methods {
		batch, longest, speed := "—", "—", "—"
		if m.LargestBatch > 0 {
			batch, longest = units.Count(m.LargestBatch), units.Count(m.LongestSeq)
		}
		if m.Fits {
			speed = units.Count(int(m.TokensPerSecond))
			if chosen == "" {
				chosen = m.Name
			}
		}
		s.Line("  ", screen.Pad(m.Name, 8), screen.PadLeft(m.Needs.Short(), 9), screen.PadLeft(batch, 12), screen.PadLeft(longest, 16), screen.PadLeft(speed, 10))
	}
	s.Blank()
	for _, m := range f.Methods {
		if m.Name != chosen {
			continue
		}
		name := m.Name
		if name == "full" {
			name = "Full fine-tuning"
		}
		text := fmt.Sprintf("%s is the first that fits: %s.", name, m.Changes)
		s.Paragraph(0, text)
		s.Blank()
	}
}

// FitHeadline is the answer in a sentence, for any kind of page.
func FitHeadline(f *report.Fit) string {
	for _, p := range f.Plans {
		if p.Fits {
			return fmt.Sprintf("Of %s configurations the recommended one takes about %s per step (±%.0f %%) and %s of %s.", units.Count(f.Considered),
				milliseconds(p.StepMS), 100*p.Uncertainty, p.Peak.Device.Short(), f.Capacity.Short())
		}
	}
	return fmt.Sprintf("None of %s configurations fits in %s.", units.Count(f.Considered), f.Capacity.Short())
}

func sameTraining(plans []report.Plan) string {
	for _, p := range plans[:min(len(plans), shownPlans)] {
		if p.ChangesNumerics {
			return " Plans marked ≠ change numerics."
		}
	}
	return " Training stays the same in all of these:"
}

func planTable(s *screen.Screen, plans []report.Plan) {
	if s.Width() < 80 {
		narrowPlans(s, plans)
		return
	}
	s.Line(s.Ink(screen.Faint, "     micro-batch  precision  checkpointing     optimizer     peak   room   time"))
	for i, p := range plans {
		mark := " "
		if p.ChangesNumerics {
			mark = "≠"
		}
		s.Line(
			fmt.Sprintf("%3d%s ", i+1, mark),
			screen.Pad(fmt.Sprintf("%d × %d", p.MicroBatch, p.Accumulate), 13),
			screen.Pad(string(p.Precision), 11),
			screen.Pad(checkpointed(p), 18),
			screen.Pad(string(p.Optimizer), 12),
			screen.PadLeft(p.Peak.Device.GiBString(1), 6),
			screen.PadLeft(p.Headroom.GiBString(1), 7),
			screen.PadLeft(fmt.Sprintf("%.2f×", p.StepMS/plans[0].StepMS), 7))
		if extra := planExtras(p); extra != "" {
			s.Line("       ", s.Ink(screen.Faint, extra))
		}
	}
	s.Line(s.Ink(screen.Faint, "     (peak: as the driver sees it; room: left beyond the safe bound; GiB)"))
}

// narrowPlans is the table of plans for a terminal without room for all columns: the settings go below the numbers.
func narrowPlans(s *screen.Screen, plans []report.Plan) {
	s.Line(s.Ink(screen.Faint, "     micro-batch    peak    room    time"))
	for i, p := range plans {
		mark := " "
		if p.ChangesNumerics {
			mark = "≠"
		}
		s.Line(fmt.Sprintf("%3d%s ", i+1, mark), screen.Pad(fmt.Sprintf("%d × %d", p.MicroBatch, p.Accumulate), 13), screen.PadLeft(p.Peak.Device.GiBString(1), 6),
			screen.PadLeft(p.Headroom.GiBString(1), 8), screen.PadLeft(fmt.Sprintf("%.2f×", p.StepMS/plans[0].StepMS), 8))
		settings := []string{string(p.Precision), "checkpointing " + checkpointed(p), string(p.Optimizer)}
		if extra := planExtras(p); extra != "" {
			settings = append(settings, extra)
		}
		s.Paragraph(7, strings.Join(settings, " · "))
	}
	s.Paragraph(5, "(peak: as the driver sees it; room: left beyond the safe bound; GiB)")
}

// planExtras are settings that have no column.
func planExtras(p report.Plan) string {
	var parts []string
	if p.Tensor > 1 {
		parts = append(parts, fmt.Sprintf("tensor parallel %d", p.Tensor))
	}
	if p.Stages > 1 {
		parts = append(parts, fmt.Sprintf("%d stages", p.Stages))
	}
	if p.Context > 1 {
		parts = append(parts, fmt.Sprintf("context parallel %d", p.Context))
	}
	switch {
	case p.Ranks > 1:
		parts = append(parts, fmt.Sprintf("%d × %s", p.Ranks, p.Sharding))
	case p.Sharding != "":
		parts = append(parts, string(p.Sharding))
	}
	if p.Conf != "" {
		parts = append(parts, p.Conf)
	}
	if p.Offload != "" {
		what := p.Offload
		if what == "both" {
			what = "optimizer and activations"
		}
		parts = append(parts, fmt.Sprintf("%s on the host (%s)", what, p.Host.Short()))
	}
	return strings.Join(parts, " · ")
}

func checkpointed(p report.Plan) string {
	if p.Checkpointing == "selective" {
		return fmt.Sprintf("selective %d/%d", p.Layers, p.OfLayers)
	}
	return string(p.Checkpointing)
}

// planDetails says what the first plan's changes buy and why others lose.
func planDetails(s *screen.Screen, f *report.Fit, best report.Plan) {
	if len(best.Changes) > 0 {
		s.Blank()
		s.Line("What plan 1 changes, and what each change gains:")
		for _, c := range best.Changes {
			s.Hanging("  · ", screen.Plain, screen.Clean(c))
		}
	}
	if len(f.Alternatives) > 0 {
		s.Blank()
		s.Line("Why not:")
		for _, a := range f.Alternatives {
			s.Hanging("  · ", screen.Plain, a.What+": "+a.Why)
		}
	}
}

func nothingFits(s *screen.Screen, f *report.Fit) {
	for _, line := range screen.Wrap(fmt.Sprintf("Nothing fits: none of %s configurations runs in %s.", units.Count(f.Considered), f.Capacity.Short()), s.Width()) {
		s.Line(s.Ink(screen.Red, line))
	}
	if len(f.Least) == 0 {
		return
	}
	s.Blank()
	s.Line("What would fit:")
	for _, l := range f.Least {
		text := l.Action
		if l.Numerics {
			text += " (changes what is trained)"
		}
		s.Hanging("  · ", screen.Plain, text)
	}
}

// milliseconds prints a time with three digits.
func milliseconds(ms float64) string {
	switch {
	case ms >= 10_000:
		return fmt.Sprintf("%.1f s", ms/1000)
	case ms >= 1000:
		return fmt.Sprintf("%.2f s", ms/1000)
	case ms >= 100:
		return fmt.Sprintf("%.0f ms", ms)
	}
	return fmt.Sprintf("%.1f ms", ms)
}
