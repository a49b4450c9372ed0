package textout

import (
	"fmt"
	"strings"

	"github.com/plimsoll/plimsoll/internal/answer/report"
	"github.com/plimsoll/plimsoll/internal/show/screen"
	"github.com/plimsoll/plimsoll/internal/units"
)

// predictRun prints the answer for a whole run.
func predictRun(s *screen.Screen, r *report.Prediction) {
	run := r.Run
	s.Paragraph(0, screen.Clean(fmt.Sprintf("%s · %s parameters · %s (%s)", r.Title, shortCount(r.Params), r.Card, r.Capacity.Short())))
	s.Paragraph(0, screen.Clean(runSentence(run)))
	s.Blank()
	verdict, ink := runVerdict(r)
	for _, line := range screen.Wrap(screen.Clean(verdict), s.Width()) {
		s.Line(s.Ink(ink, line))
	}
	s.Blank()
	chart(s, r)
	s.Blank()
	s.Line(fmt.Sprintf("  %s allocated at most · %s reserved by PyTorch on a card without limit", run.MaxAllocated.Short(), run.MaxReserved.Short()))
	s.Line(fmt.Sprintf("  %s may be held here · %s were, at most", run.Limited.Room.Short(), run.Limited.Reserved.Short()))
	if run.Least > 0 {
		s.Line(fmt.Sprintf("  the run needs %s to be held", run.Least.Short()))
	}
	runRemedies(s, run)
	for i, a := range r.Assumptions {
		if i == 0 {
			s.Blank()
		}
		s.Hanging("  assumed  ", screen.Faint, screen.Clean(a))
	}
}

func runSentence(run *report.Run) string {
	text := units.Count(run.Steps) + " batches"
	if run.Steps == 1 {
		text = "1 batch"
	}
	if run.Longest > 0 {
		text += fmt.Sprintf(" of up to %s tokens", units.Count(run.Longest))
	}
	if run.Samples > 0 {
		text += fmt.Sprintf(" · %s samples from %s, %s", units.Count(run.Samples), run.Lengths, run.Sampler)
	} else {
		text += " · " + run.Lengths
	}
	if run.Evaluated > 0 {
		text += " · " + counted(run.Evaluated, "evaluation")
	}
	return text
}

// batchShape is the samples of a batch and the tokens of the longest, where it has tokens.
func batchShape(shape []int) string {
	if shape[1] == 0 {
		return counted(shape[0], "sample")
	}
	return fmt.Sprintf("%d × %s", shape[0], units.Count(shape[1]))
}

// runVerdict is the answer in a sentence or two.
func runVerdict(r *report.Prediction) (string, screen.Ink) {
	run := r.Run
	orders := ""
	if run.Orders > 1 {
		orders = fmt.Sprintf(" in all %d orders of the samples that were simulated", run.Orders)
	}
	if run.Orders == 2 {
		orders = " in both orders of the samples that were simulated"
	}
	switch r.Verdict {
	case report.Fits:
		return fmt.Sprintf("Fits: the run completes%s; %s of %s is held at most.", orders, run.MaxReserved.Short(), run.Limited.Room.Short()), screen.Green
	case report.Tight:
		return fmt.Sprintf("Tight: the run completes%s, but the allocator has to release its cache %s, and each time the card waits.", orders, times(max(run.Limited.Retries, 1))), screen.Yellow
	}
	f := run.FailsAt
	if f == nil {
		return "Does not fit.", screen.Red
	}
	where := fmt.Sprintf("at step %s", units.Count(f.Step))
	if f.Eval {
		where = fmt.Sprintf("in the evaluation after step %s", units.Count(f.Step))
	}
	text := fmt.Sprintf("Does not fit: the run fails %s, on a batch of %s", where, batchShape(f.Shape))
	if f.Sample >= 0 {
		text += fmt.Sprintf(" (sample %s is the longest)", units.Count(f.Sample))
	}
	if f.Phase != "" && !f.Eval {
		text += ", in the " + f.Phase + " pass"
		if f.Where != "" {
			text += ", at " + f.Where
		}
	}
	text += fmt.Sprintf(": %s requested, and no room after the cache was released.", f.Asked.Short())
	if run.Orders > 1 {
		text += fmt.Sprintf(" %d of %d orders of the samples fail, the latest at step %s.", run.Failing, run.Orders, units.Count(f.Last))
	}
	return text, screen.Red
}

// chart draws the run: what is reserved and allocated, over its steps, against the room there is.
func chart(s *screen.Screen, r *report.Prediction) {
	run := r.Run
	const rows = 8
	columns := max(min(s.Width()-14, 100), 20)
	curve := run.Curve
	if len(curve) == 0 {
		return
	}
	most := run.Limited.Room
	peak := run.Limited.Reserved
	for _, m := range curve {
		peak = max(peak, m.Reserved, m.Allocated)
	}
	if most > peak*3/2 { // the limit is far away: the curve is worth more
		most = peak
	}
	reserved, allocated := make([]units.Bytes, columns), make([]units.Bytes, columns)
	retried := make([]bool, columns)
	last := max(run.Steps, curve[len(curve)-1].Step)
	for _, m := range curve {
		at := min((m.Step-1)*columns/max(last, 1), columns-1)
		reserved[at], allocated[at] = max(reserved[at], m.Reserved), max(allocated[at], m.Allocated)
		retried[at] = retried[at] || m.Retries > 0
	}
	for at := 1; at < columns; at++ {
		if reserved[at] == 0 && (run.FailsAt == nil || at <= (run.FailsAt.Step-1)*columns/max(last, 1)) {
			reserved[at], allocated[at] = reserved[at-1], allocated[at-1]
		}
	}
	for row := rows; row > 0; row-- {
		floor := most * units.Bytes(row-1) / rows
		label := ""
		if row == rows || row == rows/2 || row == 1 {
			label = (most * units.Bytes(row) / rows).Short()
		}
		var line strings.Builder
		for at := range columns {
			switch {
			case allocated[at] > floor:
				line.WriteString("█")
			case reserved[at] > floor:
				line.WriteString("░")
			default:
				line.WriteString(" ")
			}
		}
		s.Line(screen.PadLeft(label, 10), " │", strings.TrimRight(line.String(), " "))
	}
	marks := make([]string, columns)
	for at := range marks {
		marks[at] = "─"
		if retried[at] {
			marks[at] = "┴"
		}
	}
	if f := run.FailsAt; f != nil {
		marks[min((f.Step-1)*columns/max(last, 1), columns-1)] = "✗"
	}
	s.Line(screen.PadLeft("", 10), " └", strings.Join(marks, ""))
	legend := "█ allocated  ░ held  ┴ cache released"
	if run.FailsAt != nil {
		legend += "  ✗ dies"
	}
	s.Line(screen.PadLeft("", 12), screen.Fit(fmt.Sprintf("step 1 … %s    %s", units.Count(last), legend), columns))
}

func runRemedies(s *screen.Screen, run *report.Run) {
	if len(run.Remedies) == 0 {
		return
	}
	s.Blank()
	s.Line("What would make it safe, each simulated the same way")
	width := min(max(s.Width()-30, 30), 70)
	for _, r := range run.Remedies {
		result := s.Ink(screen.Green, "completes")
		switch {
		case !r.Completes:
			result = s.Ink(screen.Red, fmt.Sprintf("fails in %d of %d", r.Failing, r.Orders))
		case r.Retries > 0:
			result = s.Ink(screen.Yellow, "completes, cache released "+times(r.Retries))
		}
		for i, line := range screen.Wrap(screen.Clean(r.Action), width) {
			if i == 0 {
				s.Line("  ", screen.Pad(line, width), "  ", screen.PadLeft(r.Reserved.Short(), 10), "  ", result)
				continue
			}
			s.Line("  ", line)
		}
	}
}
