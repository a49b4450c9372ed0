package tui

import (
	"fmt"
	"strings"
	"time"

	"github.com/plimsoll/plimsoll/internal/live/watch"
	"github.com/plimsoll/plimsoll/internal/show/screen"
	"github.com/plimsoll/plimsoll/internal/units"
)

// curve draws the memory of the selected card, or of the selected process, over time: the right edge is now.
func (s scene) curve(width, height int, process bool) []string {
	p := s.paper
	const axis = 7
	if height < 4 || width < axis+10 {
		return fill(nil, height)
	}
	title, points, top := s.curveOf(process)
	if len(points) == 0 {
		return fill(nil, height)
	}
	plot := height - 2
	buckets := bucket(points, width-axis)
	lines := []string{p.cell(title, width, screen.Faint)}
	for y := plot - 1; y >= 0; y-- {
		label := ""
		switch y {
		case plot - 1:
			label = top.GiBString(1)
		case 0:
			label = "0"
		}
		lines = append(lines, p.cell(label, -(axis-1), screen.Faint)+" "+p.Ink(screen.Cyan, level(p, buckets, top, y, plot)))
	}
	ago := watch.Ago(points[0].Age) + " ago"
	return append(lines, strings.Repeat(" ", axis)+p.cell(ago, width-axis-3, screen.Faint)+p.Ink(screen.Faint, "now"))
}

func (s scene) curveOf(process bool) (string, []watch.CurvePoint, units.Bytes) {
	if r, ok := s.selected(); ok && process {
		return fmt.Sprintf("%s on %s, GiB (c: the whole card)", r.Name(), r.card.Label()), r.Curve(), max(r.Peak, units.MiB)
	}
	for _, c := range s.v.Cards {
		if c.ID == s.card() {
			title := fmt.Sprintf("%s, GiB in use; peak %s (c: the selected process)", c.Label(), c.Peak.Short())
			for _, o := range c.Orphans {
				title = fmt.Sprintf("%s, GiB in use; %s of it held by process %d, which has ended", c.Label(), o.Bytes.Short(), o.PID)
			}
			return title, c.Curve(), c.Total
		}
	}
	return "", nil, units.MiB
}

// bucket gives the highest reading of each of n equal stretches of time; -1 where there is none.
func bucket(points []watch.CurvePoint, n int) []units.Bytes {
	out := make([]units.Bytes, n)
	for i := range out {
		out[i] = -1
	}
	if len(points) == 0 {
		return out
	}
	// One column is never less than a second, so that a short history grows from the right instead of being stretched.
	whole := max(points[0].Age, time.Duration(n-1)*time.Second)
	for _, q := range points {
		i := n - 1 - int(int64(q.Age)*int64(n-1)/int64(whole))
		out[i] = max(out[i], q.Used)
	}
	for i := 1; i < n; i++ { // readings further apart than columns
		if out[i] < 0 {
			out[i] = out[i-1]
		}
	}
	return out
}

// level draws one line of the plot: full blocks below the curve, an eighth block at it.
func level(p paper, buckets []units.Bytes, top units.Bytes, y, plot int) string {
	eighths, full := []rune(" ▁▂▃▄▅▆▇█"), '█'
	if p.ascii {
		eighths, full = []rune("  ..::####")[:9], '#'
	}
	var out strings.Builder
	for _, b := range buckets {
		filled := int(float64(max(0, b)) / float64(top) * float64(plot*8))
		if b > 0 {
			filled = max(1, filled)
		}
		switch here := filled - y*8; {
		case here <= 0:
			out.WriteRune(' ')
		case here >= 8:
			out.WriteRune(full)
		default:
			out.WriteRune(eighths[here])
		}
	}
	return out.String()
}
