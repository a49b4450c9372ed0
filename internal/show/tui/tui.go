// Package tui is the screen of plimsoll watch.
//
// It takes a sample.View, a State (what is selected, sorted, filtered) and a size and returns lines that fill exactly that size: cards, findings,
// processes, a curve of the past. Panes are pure functions of these and read the same without colour and in ASCII; a small Bubble
// Tea model around them turns keys into State. Nothing here reads the machine, and nothing here can end a process.
package tui

import (
	"strings"

	"github.com/plimsoll/plimsoll/internal/live/watch"
	"github.com/plimsoll/plimsoll/internal/show/screen"
)

// State is what the person at the screen has chosen.
type State struct {
	Row     int // selected line of the process table
	Sort    Order
	Invert  bool
	Filter  string // only processes whose text contains it
	Typing  bool   // keys go into the filter
	CardID  string // only this card; empty: all
	Paused  bool
	Help    bool
	Who     bool // who holds the memory of the selected process
	OneProc bool // the curve shows the selected process, not its card
}

// Order is what the process table is sorted by.
type Order int

// Orders, in the order in which F6 goes through them.
const (
	ByMemory Order = iota
	ByGrowth
	ByPID
	ByUser
	orders
)

func (o Order) String() string { return [...]string{"memory", "growth", "PID", "user"}[o] }

// paper knows how lines may look.
type paper struct {
	*screen.Screen
	ascii bool
}

func newPaper(style screen.Style) paper { return paper{screen.New(nil, style), style.ASCII} }

// cell fits text into a column and colours it. A negative width aligns to the right.
func (p paper) cell(text string, width int, ink screen.Ink) string {
	text = screen.Clean(text)
	if width < 0 {
		return p.Ink(ink, screen.PadLeft(screen.Fit(text, -width), -width))
	}
	return p.Ink(ink, screen.Pad(screen.Fit(text, width), width))
}

// pick gives the first spelling, or the second where only ASCII is allowed.
func (p paper) pick(utf8, ascii string) string {
	if p.ascii {
		return ascii
	}
	return utf8
}

// scene is what one drawing needs: the view, the choices, and the table's rows worked out once.
type scene struct {
	paper
	v    watch.View
	st   State
	rows []row
	at   int // selected row, -1 for none
}

func newScene(v watch.View, st State, style screen.Style) scene {
	s := scene{newPaper(style), v, st, rows(v, st), -1}
	if st.Row >= 0 {
		s.at = min(st.Row, len(s.rows)-1)
	}
	return s
}

// selected is the selected row, if there is one.
func (s scene) selected() (row, bool) {
	if s.at < 0 {
		return row{}, false
	}
	return s.rows[s.at], true
}

// card is the id of the card in the light: the selected process's, else the one chosen, else the first.
func (s scene) card() string {
	if r, ok := s.selected(); ok {
		return r.card.ID
	}
	if s.st.CardID == "" && s.st.Row >= 0 && len(s.v.Cards) > 0 {
		return s.v.Cards[0].ID
	}
	return s.st.CardID
}

// Render draws the whole screen: exactly height lines, none wider than width.
func Render(v watch.View, st State, width, height int, style screen.Style) string {
	style.Width = width
	st.Row = max(0, st.Row)
	s := newScene(v, st, style)
	if width < 20 || height < 5 {
		return finish([]string{s.cell("plimsoll: window too small", width, screen.Plain)}, width, height, style)
	}
	body := height - 2
	lines := []string{s.header(width)}
	switch {
	case st.Help:
		lines = append(lines, s.help(width, body)...)
	case st.Who:
		lines = append(lines, s.who(width, body)...)
	case width >= 160 && height >= 30:
		lines = append(lines, s.wide(width, body)...)
	default:
		lines = append(lines, s.tall(width, body)...)
	}
	return finish(append(fill(lines, height-1), s.footer(width)), width, height, style)
}

// tall puts the panes below one another.
func (s scene) tall(width, height int) []string {
	gap := 0
	if height >= 30 {
		gap = 1
	}
	cards := min(1+len(s.v.Cards), max(3, height*2/5))
	findings := min(max(1, len(s.v.Findings)), max(3, height/8))
	detail := 2
	curve := 0
	if height >= 20 {
		curve = max(4, height/4)
	}
	processes := height - cards - findings - detail - curve - 4*gap
	if want := max(2, 1+len(s.rows)); processes > want { // the curve may have what the table does not need
		curve += processes - want
		processes = want
	}
	var lines []string
	for _, part := range [][]string{
		s.cards(width, cards), s.findings(width, findings), s.processes(width, max(2, processes)),
		s.detail(width, detail), s.curve(width, curve, s.st.OneProc),
	} {
		lines = append(lines, part...)
		for range gap {
			lines = append(lines, "")
		}
	}
	return lines
}

// wide puts processes to the left; findings and the curves of card and process to the right.
func (s scene) wide(width, height int) []string {
	lines := append([]string{""}, s.cards(width, min(1+len(s.v.Cards), height/3))...)
	lines = append(lines, "")
	rest := height - len(lines)
	leftWidth := width * 3 / 5
	rightWidth := width - leftWidth - 3
	left := append(fill(s.processes(leftWidth, rest-4), rest-4), "")
	left = append(left, s.detail(leftWidth, 3)...)
	right := append(s.findings(rightWidth, min(max(1, len(s.v.Findings))*2, rest/3)), "")
	each := (rest - len(right) - 1) / 2
	right = append(right, s.curve(rightWidth, each, s.st.OneProc)...)
	right = append(right, "")
	right = append(right, s.curve(rightWidth, each, !s.st.OneProc)...)
	left, right = fill(left, rest), fill(right, rest)
	for i := range rest {
		lines = append(lines, screen.Pad(clip(left[i], leftWidth), leftWidth)+"   "+right[i])
	}
	return lines
}

func fill(lines []string, height int) []string {
	for len(lines) < height {
		lines = append(lines, "")
	}
	return lines[:max(0, height)]
}

// clip cuts a line to so many columns, colour codes not counted.
func clip(line string, width int) string {
	if screen.Columns(line) <= width {
		return line
	}
	var out strings.Builder
	columns, escape, inked := 0, false, false
	for _, r := range line {
		switch {
		case r == '\x1b':
			escape, inked = true, true
		case escape:
			escape = r != 'm'
		case columns == width:
			continue
		default:
			columns++
		}
		out.WriteRune(r)
	}
	if inked {
		out.WriteString("\x1b[0m")
	}
	return out.String()
}

// finish joins exactly height lines, each cut to the width.
func finish(lines []string, width, height int, style screen.Style) string {
	var out strings.Builder
	s := screen.New(&out, style)
	for _, line := range fill(lines, height) {
		s.Line(clip(line, width))
	}
	return strings.TrimSuffix(out.String(), "\n")
}
