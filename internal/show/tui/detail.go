package tui

import (
	"fmt"
	"math"
	"strings"

	"github.com/plimsoll/plimsoll/internal/live/watch"
	"github.com/plimsoll/plimsoll/internal/show/screen"
)

// detail says in words what is known of the selected process.
func (s scene) detail(width, height int) []string {
	p := s.paper
	r, ok := s.selected()
	if !ok || height < 1 {
		return fill(nil, height)
	}
	first := r.Name()
	for _, part := range []struct{ label, value string }{
		{"user ", r.Who.User}, {"rank ", rankText(r.Who)}, {"job ", r.Who.Job}, {"container ", r.Who.Container}, {"pod ", r.Who.Pod},
	} {
		if part.value != "" {
			first += " · " + part.label + part.value
		}
	}
	lines := []string{p.cell(first, width, screen.Bold)}
	for _, line := range screen.Wrap(screen.Clean(secondLine(p, r)), width-2) {
		lines = append(lines, "  "+line)
	}
	return fill(lines, height)
}

func rankText(who watch.Identity) string {
	if who.Rank < 0 {
		return ""
	}
	if who.World == 0 {
		return fmt.Sprint(who.Rank)
	}
	return fmt.Sprintf("%d of %d", who.Rank, who.World)
}

func secondLine(p paper, r row) string {
	var parts []string
	if r.Who.Gone {
		parts = append(parts, "dead, but its memory is still held")
	}
	if r.Who.Hidden != "" {
		parts = append(parts, r.Who.Hidden)
	}
	if t := r.Torch; t != nil {
		parts = append(parts, fmt.Sprintf("PyTorch: %s allocated + %s cached, peak %s; step %d, %s",
			t.Allocated.Short(), t.Cached().Short(), t.PeakAllocated.Short(), t.Step, t.Phase))
	}
	if r.Trend.Steady {
		parts = append(parts, fmt.Sprintf("grows %s (%s %.0f %%) for %s now; card full in %s", watch.Rate(r.Trend.Slope), p.pick("±", "+-"),
			math.Ceil(100*r.Trend.Margin/r.Trend.Slope), watch.Ago(r.Trend.Span), watch.Ago(r.card.TimeLeft)))
	}
	if !r.Known {
		parts = append(parts, "the driver does not say how much it holds")
	}
	if len(parts) == 0 {
		parts = append(parts, "no steady growth")
	}
	return strings.Join(parts, " · ")
}
