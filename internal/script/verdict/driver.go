package verdict

import (
	"cmp"
	"slices"

	"github.com/plimsoll/plimsoll/internal/live/watch"
	"github.com/plimsoll/plimsoll/internal/units"
)

// Driver is what the driver said about the cards while a command ran. Its readings are samples: what lies between two of them is not seen.
type Driver struct {
	Asked bool // there is a driver, and it answered
	// Blind says that it does not tell whose the memory is: processes are hidden from inside a container.
	Blind bool
	// Risen is the most by which the used memory of one card rose above what it was before the command started.
	Risen     units.Bytes
	RisenOn   int // the card's number
	Processes []Held

	before map[string]units.Bytes
}

// Held is a process of the command and the most it was seen to hold on one card.
type Held struct {
	PID     int
	Card    int // the driver's number
	Bytes   units.Bytes
	Known   bool // false: the driver does not say how much
	Command string
	Why     Blindness // why the probe may not be in it
}

// Blindness is why a process loads no probe.
type Blindness string

// Why a process is not observed.
const (
	Unknown     Blindness = ""
	NoPython    Blindness = "it is not Python"
	Isolated    Blindness = "its Python ignores PYTHONPATH (-I, -E or -S)"
	Replaced    Blindness = "its PYTHONPATH was replaced"
	Cleared     Blindness = "its environment was cleared"
	NeverLoaded Blindness = "it does not use PyTorch, or another library holds the memory"
)

// Before notes what the cards held before the command started.
func (d *Driver) Before(r watch.Reading) {
	d.Asked = true
	d.before = map[string]units.Bytes{}
	for _, c := range r.Cards {
		d.before[c.ID] = c.Used
	}
}

// During takes one reading. ours tells of a process whether it belongs to the command, and why it may load no probe.
func (d *Driver) During(r watch.Reading, ours func(pid int) (Blindness, bool)) {
	d.Asked = true
	index := map[string]int{}
	for _, c := range r.Cards {
		index[c.ID] = c.Index
		if was, known := d.before[c.ID]; known && c.Used-was > d.Risen {
			d.Risen, d.RisenOn = c.Used-was, c.Index
		}
	}
	seen := false
	for _, u := range r.Uses {
		seen = seen || !u.Who.Gone && u.Who.Hidden == ""
		why, belongs := ours(u.PID)
		if !belongs {
			continue
		}
		d.note(Held{PID: u.PID, Card: index[u.CardID], Bytes: u.Bytes, Known: u.Known, Command: u.Who.Command, Why: why})
	}
	d.Blind = d.Blind || !seen && slices.ContainsFunc(r.Cards, func(c watch.Card) bool { return c.Used > c.Total/20 })
}

func (d *Driver) note(h Held) {
	at := slices.IndexFunc(d.Processes, func(p Held) bool { return p.PID == h.PID })
	switch {
	case at < 0:
		d.Processes = append(d.Processes, h)
	case h.Bytes > d.Processes[at].Bytes:
		d.Processes[at].Bytes, d.Processes[at].Card, d.Processes[at].Known = h.Bytes, h.Card, h.Known
	}
}

// unobserved are the command's processes on the cards that wrote no notes, the largest first.
func (e Evidence) unobserved() []Held {
	var out []Held
	for _, h := range e.Driver.Processes {
		if !e.noted(h.PID) {
			out = append(out, h)
		}
	}
	slices.SortFunc(out, func(a, b Held) int { return cmp.Or(cmp.Compare(b.Bytes, a.Bytes), cmp.Compare(a.PID, b.PID)) })
	return out
}

func (e Evidence) noted(pid int) bool {
	for _, p := range e.Notes {
		if p.PID == pid && p.Device != nil {
			return true
		}
	}
	return false
}
