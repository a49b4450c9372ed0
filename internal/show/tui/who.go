package tui

import (
	"fmt"

	"github.com/plimsoll/plimsoll/internal/live/watch"
	"github.com/plimsoll/plimsoll/internal/show/screen"
	"github.com/plimsoll/plimsoll/internal/units"
)

// who lists who holds the memory of the selected process, as its probe last saw it.
func (s scene) who(width, height int) []string {
	p := s.paper
	r, ok := s.selected()
	if !ok {
		return fill([]string{"", "  No process is selected."}, height)
	}
	lines := []string{"", p.cell(fmt.Sprintf("  Who holds the memory of %s", r.Name()), width, screen.Bold), ""}
	switch t := r.Torch; {
	case t == nil:
		lines = append(lines, "  Known for processes started under plimsoll run.")
	case t.Held == nil && t.Asks == 0:
		lines = append(lines, "  It cannot answer: its script uses SIGUSR2 itself.")
	case t.Held == nil:
		lines = append(lines, "  Asked. It answers when Python runs its next line, usually within seconds.")
	default:
		lines = append(lines, s.holders(t.Held, width)...)
	}
	return fill(lines, height)
}

func (s scene) holders(h *watch.Held, width int) []string {
	p := s.paper
	var lines []string
	for _, one := range h.Holders {
		text := one.Name
		if one.Count > 1 {
			text += fmt.Sprintf(" (%s tensors)", units.Count(one.Count))
		}
		lines = append(lines, p.cell(one.Bytes.Short(), -13, screen.Bold)+"  "+p.cell(text, width-15, screen.Plain))
	}
	return append(lines, "", p.cell(fmt.Sprintf("  in step %d; %.0f %% of what is allocated has a name. w asks again, Esc goes back.", h.Step, 100*h.Share), width, screen.Faint))
}

// Ask is what the screen wants to ask a process: the signal it listens to. Zero: nothing.
type Ask struct{ PID, Signal int }

// asks gives what to ask the selected process after w was pressed.
func (st State) asks(v watch.View) Ask {
	all := rows(v, st)
	if st.Row < 0 || st.Row >= len(all) {
		return Ask{}
	}
	if t := all[st.Row].Torch; t != nil && t.Asks != 0 {
		return Ask{all[st.Row].PID, t.Asks}
	}
	return Ask{}
}
