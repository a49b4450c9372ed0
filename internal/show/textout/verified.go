package textout

import (
	"fmt"

	"github.com/plimsoll/plimsoll/internal/answer/report"
	"github.com/plimsoll/plimsoll/internal/show/screen"
)

// Verified prints a plan beside what it took when it ran.
func Verified(s *screen.Screen, p report.Plan, v *report.Verified) {
	s.Paragraph(0, fmt.Sprintf("Plan %d, written for %s, ran on this machine: %s, PyTorch %s.", v.Plan, v.Form, v.Card, v.Torch))
	s.Blank()
	s.Line("             predicted    measured  difference")
	line := func(name, predicted, measured string, off float64, more string) {
		s.Line(fmt.Sprintf("  %-9s %11s %11s %11s%s", name, predicted, measured, fmt.Sprintf("%+.1f %%", 100*off), more))
	}
	line("allocated", p.Peak.Allocated.Short(), v.Allocated.Short(), float64(p.Peak.Allocated)/float64(v.Allocated)-1, "")
	line("reserved", p.Peak.Reserved.Short(), v.Reserved.Short(), float64(p.Peak.Reserved)/float64(v.Reserved)-1, "  at most "+p.Safe.Short())
	if v.StepMS > 0 {
		line("step", fmt.Sprintf("%.0f ms", p.StepMS), fmt.Sprintf("%.0f ms", v.StepMS), p.StepMS/v.StepMS-1, fmt.Sprintf("  ± %.0f %%", 100*p.Uncertainty))
	}
	s.Blank()
	switch {
	case v.Failed != "":
		s.Paragraph(0, "It does not hold: "+v.Failed+".")
	case !v.Holds:
		s.Paragraph(0, "It does not hold: more was reserved than the bound of the plan.")
	default:
		s.Paragraph(0, "It holds: the plan ran within its bound.")
	}
	for _, n := range v.Notes {
		s.Hanging("  · ", screen.Plain, n)
	}
}
