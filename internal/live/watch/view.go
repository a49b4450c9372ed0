package watch

import (
	"cmp"
	"slices"
	"time"

	"github.com/plimsoll/plimsoll/internal/units"
)

// View is what a history says after its last reading: everything a screen, a JSON document or a scrape shows.
type View struct {
	Time     time.Time
	Origin   string
	Driver   string
	Watched  time.Duration // from the first reading to the last
	Readings int
	Failures int
	Cards    []CardView
	Findings []Finding
	Problems []string
	// Error says why the last attempt to read failed; the numbers are then those of Time.
	Error string
}

// CardView is a card with its past, its processes and its prospects.
type CardView struct {
	Card
	// Unattributed is in use but listed for nobody; -1 when some process hides its amount.
	Unattributed units.Bytes
	Orphans      []Orphan
	Peak         units.Bytes
	// Own is the trend of the card itself, worked out only where its processes cannot be seen.
	Own Trend
	// Growth is the sum of steady growth on the card in bytes a second; zero when nothing grows.
	Growth float64
	// TimeLeft is when the card is full at that growth; negative when nothing grows.
	TimeLeft  time.Duration
	Processes []ProcessView // largest first
	past
}

// CurvePoint is one reading of a history curve.
type CurvePoint struct {
	Age  time.Duration // before the view's time
	Used units.Bytes
}

// ProcessView is a use with its past.
type ProcessView struct {
	Use
	Peak  units.Bytes
	Trend Trend
	past
}

// Forever is the TimeLeft of a card that does not fill up.
const Forever = time.Duration(-1)

// View gives the conclusions after the last reading.
func (h *History) View() View {
	v := View{
		Time: h.last.Time, Origin: h.last.Origin, Driver: h.last.Driver, Readings: h.readings, Failures: h.failures,
		Problems: slices.Clone(h.last.Problems),
	}
	if h.err != nil {
		v.Error = h.err.Error()
	}
	if h.readings == 0 {
		return v
	}
	v.Watched = h.last.Time.Sub(h.began)
	now := v.Watched.Seconds()
	byCard := map[string][]ProcessView{}
	for _, u := range h.last.Uses {
		t := h.uses[h.keyOf(u)]
		p := ProcessView{Use: t.last, Peak: t.peak, past: past{t.recent(), now}}
		if u.Known {
			p.Trend = trendOf(t.recent())
		}
		byCard[u.CardID] = append(byCard[u.CardID], p)
	}
	for _, c := range h.last.Cards {
		v.Cards = append(v.Cards, h.cardView(c, byCard[c.ID], now))
	}
	v.Findings = findings(v)
	return v
}

func (h *History) cardView(c Card, processes []ProcessView, now float64) CardView {
	slices.SortFunc(processes, func(a, b ProcessView) int {
		return cmp.Or(cmp.Compare(b.Bytes, a.Bytes), cmp.Compare(a.PID, b.PID))
	})
	t := h.cards[c.ID]
	v := CardView{
		Card: c, Unattributed: h.rest[c.ID], Peak: t.peak, TimeLeft: Forever,
		Processes: processes, past: past{t.recent(), now}, Orphans: h.orphans[c.ID].orphans(),
	}
	hidden := len(processes) == 0
	for _, p := range processes {
		hidden = hidden || !p.Known
		if p.Trend.Steady && !loading(p.Use) {
			v.Growth += p.Trend.Slope
		}
		if key := h.keyOf(p.Use); p.Who.Gone && (!h.uses[key].seenAlive || h.uses[key].goneFor >= patience) {
			v.Orphans = append(v.Orphans, Orphan{p.PID, p.Who, p.Bytes, true})
		}
	}
	if v.Growth == 0 && hidden {
		v.Own = trendOf(t.recent()) // nobody to be seen: the card's own curve must do
		v.Growth = v.Own.Slope
	}
	if v.Growth > 0 {
		v.TimeLeft = seconds(min(float64(c.Free)/v.Growth, maxForecast.Seconds()))
	}
	return v
}

// maxForecast caps forecasts: a year from now says "not soon" as well as a century does.
const maxForecast = 365 * 24 * time.Hour

// loading tells whether the process says of itself that it is still moving its model to the card.
func loading(u Use) bool { return u.Torch != nil && u.Torch.Phase == "load" }

// past is the remembered part of a curve; its points are shared with the history and never change.
type past struct {
	points []point
	now    float64
}

// Curve gives the remembered readings, oldest first.
func (p past) Curve() []CurvePoint {
	out := make([]CurvePoint, len(p.points))
	for i, q := range p.points {
		out[i] = CurvePoint{seconds(p.now - q.at), q.bytes}
	}
	return out
}
