package tui

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/plimsoll/plimsoll/internal/live/watch"
	"github.com/plimsoll/plimsoll/internal/show/screen"
)

// row is a process with the card it is on.
type row struct {
	*watch.ProcessView
	card *watch.CardView
}

// rows are the processes the table shows, in its order.
func rows(v watch.View, st State) []row {
	var out []row
	for i := range v.Cards {
		c := &v.Cards[i]
		if st.CardID != "" && c.ID != st.CardID {
			continue
		}
		for k := range c.Processes {
			r := row{&c.Processes[k], c}
			if st.Filter == "" || strings.Contains(strings.ToLower(r.text()), strings.ToLower(st.Filter)) {
				out = append(out, r)
			}
		}
	}
	slices.SortStableFunc(out, func(a, b row) int {
		order := cmp.Or(compare(a, b, st.Sort), cmp.Compare(a.PID, b.PID), cmp.Compare(a.card.Index, b.card.Index))
		if st.Invert {
			return -order
		}
		return order
	})
	return out
}

func compare(a, b row, by Order) int {
	switch by {
	case ByGrowth:
		return cmp.Compare(b.Trend.Slope, a.Trend.Slope)
	case ByPID:
		return cmp.Compare(a.PID, b.PID)
	case ByUser:
		return cmp.Compare(a.Who.User, b.Who.User)
	}
	return cmp.Compare(b.Bytes, a.Bytes)
}

// text is everything about a row that a filter may match.
func (r row) text() string {
	return strings.Join([]string{strconv.Itoa(r.PID), r.Who.Command, r.Who.User, r.Who.Container, r.Who.Pod, r.Who.Job, r.card.Label()}, " ")
}

// column is one column of the process table. Narrow screens leave out those of higher rank.
type column struct {
	title string
	width int // negative: aligned to the right; zero: what is left
	rank  int
	text  func(row) string
	ink   func(row) screen.Ink
}

var columns = []column{
	{"PID", -7, 0, func(r row) string { return strconv.Itoa(r.PID) }, plain},
	{" user", 10, 2, func(r row) string { return " " + r.Who.User }, plain},
	{" card", 8, 0, func(r row) string { return " " + strings.TrimPrefix(r.card.Label(), "GPU ") }, plain},
	{"GiB", -7, 0, func(r row) string { return memoryText(r) }, memoryInk},
	{"peak", -7, 1, func(r row) string { return peakText(r) }, plain},
	{"growth", -15, 0, func(r row) string { return growthText(r.Trend.Slope) }, growthInk},
	{"sure", -7, 1, sureText, plain},
	{"allocated", -10, 4, torchText(func(t *watch.TorchStatus) string { return gib(t.Allocated) }), plain},
	{"cached", -8, 4, torchText(func(t *watch.TorchStatus) string { return gib(t.Cached()) }), plain},
	{"step", -8, 3, torchText(func(t *watch.TorchStatus) string { return strconv.Itoa(t.Step) }), plain},
	{"  command", 0, 0, func(r row) string { return "  " + commandText(r) }, commandInk},
	{" job", 10, 5, func(r row) string { return " " + r.Who.Job }, plain},
	{" container", 14, 5, func(r row) string { return " " + r.Who.Container }, plain},
}

func plain(row) screen.Ink { return screen.Plain }

func memoryText(r row) string {
	if !r.Known {
		return "?"
	}
	return gib(r.Bytes)
}

func peakText(r row) string {
	if !r.Known {
		return "?"
	}
	return gib(r.Peak)
}

func memoryInk(r row) screen.Ink {
	if r.Who.Gone {
		return screen.Red
	}
	return screen.Plain
}

func growthInk(r row) screen.Ink {
	if r.Trend.Steady {
		return screen.Yellow
	}
	return screen.Plain
}

func commandInk(r row) screen.Ink {
	if r.Who.Gone || r.Who.Hidden != "" {
		return screen.Faint
	}
	return screen.Plain
}

func sureText(r row) string {
	if !r.Trend.Steady {
		return ""
	}
	return fmt.Sprintf("%.0f %%", 100*min(r.Trend.Confidence, 0.99))
}

func torchText(of func(*watch.TorchStatus) string) func(row) string {
	return func(r row) string {
		if r.Torch == nil {
			return ""
		}
		return of(r.Torch)
	}
}

func commandText(r row) string {
	command := r.Who.Command
	if r.Who.Rank >= 0 {
		command += fmt.Sprintf(" [rank %d]", r.Who.Rank)
	}
	switch {
	case r.Who.Gone:
		return strings.TrimSpace(command + " (dead)")
	case command == "" && r.Who.Hidden != "":
		return "(hidden)"
	}
	return command
}

// fitting chooses the columns that leave the command at least so much room, and gives it the rest.
func fitting(width int) []column {
	const leastCommand = 20
	for most := 5; ; most-- {
		var chosen []column
		room := width
		for _, c := range columns {
			if c.rank <= most {
				chosen = append(chosen, c)
				room -= max(c.width, -c.width)
			}
		}
		if room < leastCommand && most > 0 {
			continue
		}
		for i := range chosen {
			if chosen[i].width == 0 {
				chosen[i].width = max(1, room)
			}
		}
		return chosen
	}
}

// processes is the table of processes, the selected one in sight and marked.
func (s scene) processes(width, height int) []string {
	p := s.paper
	if height < 2 {
		return nil
	}
	chosen := fitting(width - 1)
	title := " "
	for _, c := range chosen {
		title += p.cell(c.title, c.width, screen.Plain)
	}
	lines := []string{p.Ink(screen.Faint, screen.Fit(title, width))}
	all := s.rows
	if len(all) == 0 {
		return fill(append(lines, p.cell(nobody(s.v, s.st), width, screen.Faint)), height)
	}
	room := height - 1
	first := min(max(0, s.at-room/2), max(0, len(all)-room))
	for i, r := range all[first:min(len(all), first+room)] {
		line := " "
		if first+i == s.at {
			line = p.Ink(screen.Bold, ">")
		}
		for _, c := range chosen {
			line += p.cell(c.text(r), c.width, c.ink(r))
		}
		lines = append(lines, line)
	}
	return fill(lines, height)
}

// nobody says why the table is empty.
func nobody(v watch.View, st State) string {
	switch {
	case v.Readings == 0:
		return ""
	case st.Filter != "" || st.CardID != "":
		return "  no process matches; Esc shows all"
	case len(v.Problems) > 0:
		return "  no process to show: " + v.Problems[0]
	}
	return "  no process holds memory on these cards"
}
