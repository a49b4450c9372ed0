// Package simgpu is a simulated machine with GPUs, for tests and for looking at the screens without one.
//
// It takes a script (cards, and processes with a birth, a death and a law by which their memory changes) and the times at which it
// is looked at and returns the readings a real driver would give: a process that finds its card full dies, what it leaks past its
// death stays on the card. The same script looked at at the same times gives the same readings; time never runs backwards.
package simgpu

import (
	"context"
	"math"
	"time"

	"github.com/plimsoll/plimsoll/internal/live/watch"
	"github.com/plimsoll/plimsoll/internal/units"
)

// Law gives the bytes a process wants to hold when it is so many seconds old.
type Law func(age float64) units.Bytes

// Process is one process of a script.
type Process struct {
	PID  int
	Card int // index into the machine's cards
	Who  watch.Identity
	Law  Law
	// Born and Dies are seconds after the machine starts; Dies of zero: it lives on.
	Born, Dies float64
	// Leaves is what stays on the card when the process dies, listed for nobody.
	Leaves units.Bytes
	// LeavesEntry: the driver goes on listing the dead PID with all its memory.
	LeavesEntry bool
	// NoAmount: the driver does not say how much the process holds.
	NoAmount bool
	// Torch, where set, is what the process reports about itself; Reserved and Allocated are filled in from the law.
	Torch func(age float64, held units.Bytes) *watch.TorchStatus
}

// Machine plays a script. It is not safe for concurrent use.
type Machine struct {
	cards   []watch.Card
	script  []Process
	died    []float64 // second of death by out of memory, NaN while alive
	start   time.Time
	now     float64
	started bool
}

var _ watch.Source = (*Machine)(nil)

// New gives a machine that starts when it is first looked at.
func New(cards []watch.Card, script []Process) *Machine {
	m := &Machine{cards: cards, script: script, died: make([]float64, len(script))}
	for i := range m.died {
		m.died[i] = math.NaN()
	}
	return m
}

// Read lets the machine run up to now, second by second, and looks at it.
func (m *Machine) Read(ctx context.Context, now time.Time) (watch.Reading, error) {
	if err := ctx.Err(); err != nil {
		return watch.Reading{}, err
	}
	if !m.started {
		m.start, m.started = now, true
	}
	until := now.Sub(m.start).Seconds()
	for m.now+1 <= until {
		m.now++
		m.killWhatDoesNotFit()
	}
	return m.reading(now), nil
}

// OutOfMemory gives the second at which the process with that PID found its card full, and whether it has.
func (m *Machine) OutOfMemory(pid int) (float64, bool) {
	for i, p := range m.script {
		if p.PID == pid && !math.IsNaN(m.died[i]) {
			return m.died[i], true
		}
	}
	return 0, false
}

// killWhatDoesNotFit ends, card by card, the last process of the script that grew past the card's memory.
func (m *Machine) killWhatDoesNotFit() {
	used := make([]units.Bytes, len(m.cards))
	for i, p := range m.script {
		used[p.Card] += m.held(i)
		if m.alive(i) && used[p.Card] > m.cards[p.Card].Total-m.cards[p.Card].Reserved {
			used[p.Card] -= m.held(i)
			m.died[i] = m.now
			used[p.Card] += m.held(i)
		}
	}
}

func (m *Machine) alive(i int) bool {
	p := m.script[i]
	return m.now >= p.Born && (p.Dies == 0 || m.now < p.Dies) && math.IsNaN(m.died[i])
}

func (m *Machine) held(i int) units.Bytes {
	p := m.script[i]
	switch {
	case m.now < p.Born:
		return 0
	case m.alive(i):
		return p.Law(m.now - p.Born)
	case p.LeavesEntry:
		return p.Law(p.Dies - p.Born)
	}
	return p.Leaves
}

func (m *Machine) reading(now time.Time) watch.Reading {
	r := watch.Reading{Time: now, Origin: "demo", Driver: "590.44.01", Cards: append([]watch.Card(nil), m.cards...)}
	for i, p := range m.script {
		held := m.held(i)
		r.Cards[p.Card].Used += held
		if !m.alive(i) && (!p.LeavesEntry || m.now < p.Born) {
			continue
		}
		u := watch.Use{CardID: m.cards[p.Card].ID, PID: p.PID, Bytes: held, Known: !p.NoAmount, Who: p.Who}
		u.Who.Gone = !m.alive(i)
		if u.Who.Gone { // of a dead process the system says nothing
			u.Who = watch.Identity{Rank: -1, Gone: true}
		} else if p.Torch != nil {
			u.Torch = p.Torch(m.now-p.Born, held)
			u.Torch.Time = now
		}
		r.Uses = append(r.Uses, u)
	}
	for i := range r.Cards {
		c := &r.Cards[i]
		c.Free = c.Total - c.Reserved - c.Used
	}
	return r
}
