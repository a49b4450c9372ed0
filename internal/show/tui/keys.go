package tui

import (
	"strings"

	"github.com/plimsoll/plimsoll/internal/live/watch"
	"github.com/plimsoll/plimsoll/internal/show/screen"
)

// keys are those of htop where htop has one for the purpose. There is none to end a process.
var keys = []struct{ key, does string }{
	{"Up Down PgUp PgDn Home End", "move the selection (also k and j)"},
	{"F3 / F4 \\", "filter by PID, command, user, job; Esc clears it"},
	{"F6 >", "sort by the next of memory, growth, PID, user"},
	{"M G N U", "sort by memory, growth, PID, user"},
	{"I", "reverse the order"},
	{"Tab", "one card after the other, then all"},
	{"c", "curve of the card or of the selected process"},
	{"w", "who holds its memory (under plimsoll run)"},
	{"Z", "pause the screen; readings go on"},
	{"F1 h ?", "this help"},
	{"F10 q", "quit"},
}

func (s scene) help(width, height int) []string {
	p := s.paper
	lines := []string{""}
	for _, k := range keys {
		lines = append(lines, p.cell("  "+k.key, 30, screen.Bold)+p.cell(k.does, width-30, screen.Plain))
	}
	lines = append(lines, "")
	for _, text := range []string{
		"growth: memory a process gains and does not give back, per minute; a sawtooth has none. sure: how likely the growth is real. full in: when the card is full at that growth.",
		"dead: the memory outlived its process. ?: the driver does not say. allocated, cached, step: processes started under plimsoll run.",
	} {
		for _, line := range screen.Wrap(text, width-4) {
			lines = append(lines, "  "+line)
		}
	}
	return fill(lines, height)
}

func (s scene) footer(width int) string {
	st, p := s.st, s.paper
	if st.Typing {
		return p.cell("Filter: "+st.Filter+"_", width, screen.Bold)
	}
	text := "F1 help  F4 filter  F6 sort: " + st.Sort.String() + "  Tab card  c curve  Z pause  q quit"
	if st.Filter != "" {
		text = "Filter: " + st.Filter + " (Esc clears it)  " + text
	}
	return p.cell(text, width, screen.Faint)
}

// Press is the state after a key. quit: the person wants to leave.
func (st State) Press(key string, v watch.View, page int) (next State, quit bool) {
	if key == "ctrl+c" {
		return st, true
	}
	if st.Typing {
		return st.typed(key), false
	}
	if st.Help {
		st.Help = false
		return st, key == "q" || key == "f10"
	}
	last := len(rows(v, st)) - 1
	switch key {
	case "q", "f10":
		return st, true
	case "f1", "h", "?":
		st.Help = true
	case "up", "k":
		st.Row--
	case "down", "j":
		st.Row++
	case "pgup":
		st.Row -= page
	case "pgdown":
		st.Row += page
	case "home":
		st.Row = 0
	case "end":
		st.Row = last
	case "f3", "f4", "/", "\\":
		st.Typing = true
	case "w":
		st.Who = true
	case "esc":
		if st.Who {
			st.Who = false
			break
		}
		st.Filter, st.CardID = "", ""
	case "f6", ">", ".":
		st.Sort = (st.Sort + 1) % orders
	case "M":
		st.Sort = ByMemory
	case "G":
		st.Sort = ByGrowth
	case "N":
		st.Sort = ByPID
	case "U":
		st.Sort = ByUser
	case "I":
		st.Invert = !st.Invert
	case "tab":
		st.CardID = nextCard(v, st.CardID)
	case "c":
		st.OneProc = !st.OneProc
	case "Z", "z":
		st.Paused = !st.Paused
	}
	st.Row = min(max(0, st.Row), max(0, len(rows(v, st))-1))
	return st, false
}

// typed edits the filter.
func (st State) typed(key string) State {
	switch {
	case key == "enter":
		st.Typing = false
	case key == "esc":
		st.Typing, st.Filter = false, ""
	case key == "backspace":
		runes := []rune(st.Filter)
		st.Filter = string(runes[:max(0, len(runes)-1)])
	case key == "space":
		st.Filter += " "
	case len([]rune(key)) == 1 && len(st.Filter) < 60:
		st.Filter += key
	}
	st.Filter = strings.TrimLeft(st.Filter, " ")
	st.Row = 0
	return st
}

func nextCard(v watch.View, current string) string {
	if current == "" {
		if len(v.Cards) == 0 {
			return ""
		}
		return v.Cards[0].ID
	}
	if i := indexOf(v.Cards, current) + 1; i < len(v.Cards) {
		return v.Cards[i].ID
	}
	return ""
}
