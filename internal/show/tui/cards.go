package tui

import (
	"fmt"
	"strings"

	"github.com/plimsoll/plimsoll/internal/live/watch"
	"github.com/plimsoll/plimsoll/internal/show/screen"
	"github.com/plimsoll/plimsoll/internal/units"
)

func (s scene) header(width int) string {
	v, p := s.v, s.paper
	parts := []string{"plimsoll watch"}
	if v.Readings > 0 {
		parts = append(parts, v.Time.Format("15:04:05"), fmt.Sprintf("watched %s", watch.Ago(v.Watched)))
	} else {
		parts = append(parts, "waiting for the first reading")
	}
	if v.Driver != "" {
		parts = append(parts, "driver "+v.Driver)
	}
	if v.Origin == "demo" {
		parts = append(parts, "simulated machine")
	}
	if s.st.Paused {
		parts = append(parts, "PAUSED")
	}
	line := p.cell(strings.Join(parts, " · "), width, screen.Bold)
	if v.Error != "" {
		line = p.cell("plimsoll watch · reading failed: "+v.Error, width, screen.Red)
	}
	return line
}

// cards is a line a card: bar, bytes, growth and the time until it is full.
func (s scene) cards(width, height int) []string {
	p := s.paper
	if height < 2 {
		return nil
	}
	const label, numbers, growth, left = 9, 18, 15, 9
	name := 0
	if width >= 110 {
		name = 30
	}
	util := 0
	if width >= 90 {
		util = 11
	}
	bar := width - label - name - numbers - growth - left - util - 2
	if bar < 4 {
		bar = 4
	}
	lines := []string{p.Ink(screen.Faint, screen.Fit(
		p.cell("", label, screen.Plain)+p.cell("card", name, screen.Plain)+screen.Pad("", bar+1)+p.cell("used / usable GiB", -numbers, screen.Plain)+
			p.cell("busy", -util, screen.Plain)+p.cell("growth", -growth, screen.Plain)+p.cell("full in", -left, screen.Plain), width))}
	cards := s.v.Cards
	first := 0
	if len(cards) > height-1 { // keep the selected process's card in sight
		first = min(max(0, indexOf(cards, s.card())-(height-1)/2), len(cards)-(height-1))
	}
	for _, c := range cards[first:min(len(cards), first+height-1)] {
		ink := cardInk(c)
		mark := " "
		if c.ID == s.card() {
			mark = ">"
		}
		text := p.cell(mark+c.Label(), label, screen.Plain) + p.cell(shortName(c.Name), name, screen.Plain) +
			p.Ink(ink, p.Bar(float64(c.Used), float64(c.Total), bar)) + " " +
			p.cell(c.Used.GiBString(1)+" / "+(c.Used+c.Free).GiBString(1), -numbers, screen.Plain) +
			p.cell(busy(c), -util, screen.Plain) + p.cell(growthText(c.Growth), -growth, ink) + p.cell(watch.Ago(c.TimeLeft), -left, ink)
		lines = append(lines, text)
	}
	return lines
}

func indexOf(cards []watch.CardView, id string) int {
	for i, c := range cards {
		if c.ID == id {
			return i
		}
	}
	return 0
}

// cardInk is red for a card that is full within minutes, yellow for one that grows or holds memory of the dead.
func cardInk(c watch.CardView) screen.Ink {
	switch {
	case c.Growth > 0 && c.TimeLeft.Minutes() < 10:
		return screen.Red
	case c.Growth > 0 || len(c.Orphans) > 0:
		return screen.Yellow
	}
	return screen.Green
}

func shortName(name string) string { return strings.TrimPrefix(name, "NVIDIA ") }

func busy(c watch.CardView) string {
	var parts []string
	if c.Utilization >= 0 {
		parts = append(parts, fmt.Sprintf("%d %%", c.Utilization))
	}
	if c.Temperature >= 0 {
		parts = append(parts, fmt.Sprintf("%d C", c.Temperature))
	}
	return strings.Join(parts, " ")
}

func growthText(bytesPerSecond float64) string {
	if bytesPerSecond <= 0 {
		return "–"
	}
	return "+" + watch.Rate(bytesPerSecond)
}

// findings says what needs attention, the gravest first.
func (s scene) findings(width, height int) []string {
	v, p := s.v, s.paper
	if height < 1 || v.Readings == 0 {
		return fill(nil, height)
	}
	if len(v.Findings) == 0 {
		text := "No problems found."
		if v.Watched.Seconds() < 90 {
			text = "No problems so far; growth shows after a minute and a half of readings."
		}
		if len(v.Problems) > 0 {
			text = "Cannot see everything: " + v.Problems[0]
		}
		return fill([]string{p.cell(text, width, screen.Faint)}, height)
	}
	var lines []string
	for i, f := range v.Findings {
		ink, mark := screen.Yellow, "! "
		switch f.Severity {
		case watch.SevereError:
			ink, mark = screen.Red, "!!"
		case watch.SevereNote:
			ink, mark = screen.Plain, "i "
		}
		if i == height-1 && len(v.Findings) > height {
			return append(lines, p.cell(fmt.Sprintf("   and %d more", len(v.Findings)-i), width, screen.Faint))
		}
		wrapped := screen.Wrap(screen.Clean(f.Title), width-3)
		lines = append(lines, p.Ink(ink, mark)+" "+p.cell(wrapped[0], width-3, screen.Plain))
		if len(lines) < height-(len(v.Findings)-i-1) && len(wrapped) > 1 {
			lines = append(lines, "   "+p.cell(strings.Join(wrapped[1:], " "), width-3, screen.Plain))
		}
	}
	return fill(lines, height)
}

// gib prints an amount for a table whose rows must compare.
func gib(b units.Bytes) string { return b.GiBString(2) }
