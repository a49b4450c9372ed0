package textout

import (
	"fmt"
	"io"
	"strings"

	"github.com/plimsoll/plimsoll/internal/answer/report"
	"github.com/plimsoll/plimsoll/internal/show/screen"
	"github.com/plimsoll/plimsoll/internal/units"
)

// PredictDiff prints what changed between two predictions.
func PredictDiff(s *screen.Screen, d *report.PredictDiff) {
	for _, line := range screen.Wrap(changeVerdict(d), s.Width()) {
		s.Line(s.Ink(screen.Bold, line))
	}
	if d.Was != "" {
		s.Paragraph(0, fmt.Sprintf("The job was %s and is %s.", screen.Clean(d.Was), screen.Clean(d.Title)))
	}
	s.Blank()
	c := diffColumns(s)
	s.Line("  ", screen.Pad("", c.name), screen.PadLeft("before", c.before), screen.PadLeft("after", c.after), screen.PadLeft("change", c.change))
	levelRow(s, "peak reserved by PyTorch", d.Peak.Before, d.Peak.After)
	s.Blank()
	for _, c := range d.ByCategory {
		levelRow(s, c.Category, c.Before, c.After)
	}
}

func changeVerdict(d *report.PredictDiff) string {
	change := d.Peak.After - d.Peak.Before
	text := fmt.Sprintf("The predicted peak stays at %s", d.Peak.After)
	switch {
	case change > 0:
		text = fmt.Sprintf("The predicted peak grows by %s (%s) to %s", change, units.Percent(change, d.Peak.Before), d.Peak.After)
	case change < 0:
		text = fmt.Sprintf("The predicted peak shrinks by %s (%s) to %s", -change, units.Percent(-change, d.Peak.Before), d.Peak.After)
	}
	switch {
	case d.Fits && d.FitBefore:
		return fmt.Sprintf("%s and fits in %s.", text, d.Capacity)
	case d.Fits:
		return fmt.Sprintf("%s and fits in %s now.", text, d.Capacity)
	case d.FitBefore:
		return fmt.Sprintf("%s and no longer fits in %s.", text, d.Capacity)
	}
	return fmt.Sprintf("%s and does not fit in %s, as before.", text, d.Capacity)
}

// PredictDiffMarkdown writes the same for a comment on a pull request.
func PredictDiffMarkdown(w io.Writer, d *report.PredictDiff) error {
	var b strings.Builder
	fmt.Fprintf(&b, "**%s**\n\n", markdown(changeVerdict(d)))
	fmt.Fprintf(&b, "%s\n\n", markdown(strings.TrimSpace(d.Title+onCard(d.Card))))
	b.WriteString("| | base | this change | difference |\n|---|---:|---:|---:|\n")
	row := func(name string, c report.AmountChange) {
		fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", markdown(name), c.Before.Short(), c.After.Short(), signed(c.After-c.Before))
	}
	row("peak reserved by PyTorch", d.Peak)
	for _, c := range d.ByCategory {
		row(c.Category, c.AmountChange)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func onCard(card string) string {
	if card == "" {
		return ""
	}
	return " on " + card
}

func signed(change units.Bytes) string {
	switch {
	case change > 0:
		return "+" + change.Short()
	case change < 0:
		return "−" + (-change).Short()
	}
	return "0"
}

// markdown makes text harmless: names come from files of a pull request.
func markdown(text string) string {
	return strings.NewReplacer("|", `\|`, "<", "&lt;", "`", "'", "[", `\[`, "@", "@\u200b", "#", `\#`).Replace(screen.Clean(text))
}
