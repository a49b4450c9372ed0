package watch

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/plimsoll/plimsoll/internal/units"
)

// keep is how many readings a history holds: a quarter of an hour at one a second.
const keep = 900

// useKey tells uses apart: a PID may serve two processes one after the other, and hold memory on several cards.
type useKey struct {
	card    string
	pid     int
	started int64
}

// track is the remembered past of one use or one card.
type track struct {
	points []point
	peak   units.Bytes
	last   Use
	// seenAlive: the process was once visible, so its memory outliving it is worth a moment's patience.
	seenAlive bool
	goneFor   int // readings for which the system has known no such PID
}

func (t *track) add(p point) {
	if len(t.points) == 2*keep {
		t.points = slices.Clone(t.points[keep:]) // views share the old ones
	}
	t.points = append(t.points, p)
	t.peak = max(t.peak, p.bytes)
}

func (t *track) recent() []point { return t.points[max(0, len(t.points)-keep):] }

// History remembers readings and draws conclusions. The zero value is not ready; use NewHistory. It is not safe for
// concurrent use: one goroutine feeds it and hands its views on.
type History struct {
	began    time.Time
	readings int
	failures int
	last     Reading
	err      error
	uses     map[useKey]*track
	cards    map[string]*track
	orphans  map[string]*ledger
	rest     map[string]units.Bytes // unattributed bytes by card
}

// NewHistory gives an empty history.
func NewHistory() *History {
	return &History{uses: map[useKey]*track{}, cards: map[string]*track{}, orphans: map[string]*ledger{}}
}

// Look reads the source once, remembers the reading and gives the view after it.
func (h *History) Look(ctx context.Context, source Source, now time.Time) View {
	reading, err := source.Read(ctx, now)
	if err != nil {
		h.Fail(now, err)
		return h.View()
	}
	h.Add(reading)
	return h.View()
}

// Fail remembers that a reading could not be had.
func (h *History) Fail(_ time.Time, err error) {
	h.err = err
	h.failures++
}

// Add remembers a reading. One that is not later than the last is refused silently: a clock that jumps back must not bend a slope.
func (h *History) Add(r Reading) {
	if h.readings > 0 && !r.Time.After(h.last.Time) {
		return
	}
	if h.readings == 0 {
		h.began = r.Time
	}
	h.readings++
	h.err = nil
	at := r.Time.Sub(h.began).Seconds()
	present := h.addUses(r.Uses, at)
	h.addCards(r, at, present)
	h.last = r
}

// addUses extends the track of every use in the reading and reports which tracks those are.
func (h *History) addUses(uses []Use, at float64) map[useKey]bool {
	present := make(map[useKey]bool, len(uses))
	for _, u := range uses {
		key := h.keyOf(u)
		present[key] = true
		t := h.uses[key]
		if t == nil {
			t = &track{}
			h.uses[key] = t
		}
		if u.Known {
			t.add(point{at, u.Bytes})
		}
		if u.Who.Gone {
			t.goneFor++
			u.Who = lastKnown(t.last.Who, u.Who)
		} else {
			t.goneFor, t.seenAlive = 0, true
		}
		t.last = u
	}
	return present
}

// keyOf finds the track of a use. The start time of a dead process can no longer be read: it is the youngest with that PID.
func (h *History) keyOf(u Use) useKey {
	key := useKey{u.CardID, u.PID, u.Who.Started}
	if u.Who.Started != 0 || !u.Who.Gone {
		return key
	}
	for k := range h.uses {
		if k.card == u.CardID && k.pid == u.PID && k.started > key.started {
			key = k
		}
	}
	return key
}

// lastKnown keeps what was known of a process while it lived.
func lastKnown(before, now Identity) Identity {
	if before.Command == "" {
		return now
	}
	before.Gone, before.Hidden = now.Gone, now.Hidden
	return before
}

func (h *History) addCards(r Reading, at float64, present map[useKey]bool) {
	here := map[string][]Use{}
	for _, u := range r.Uses {
		here[u.CardID] = append(here[u.CardID], u)
	}
	left := h.vanished(present)
	listed := map[string]bool{}
	h.rest = map[string]units.Bytes{}
	for _, c := range r.Cards {
		listed[c.ID] = true
		if h.cards[c.ID] == nil {
			h.cards[c.ID], h.orphans[c.ID] = &track{}, &ledger{}
		}
		h.cards[c.ID].add(point{at, c.Used})
		h.rest[c.ID] = unattributed(c, here[c.ID])
		h.orphans[c.ID].settle(h.rest[c.ID], left[c.ID])
	}
	maps.DeleteFunc(h.uses, func(k useKey, _ *track) bool { return !present[k] })
	maps.DeleteFunc(h.cards, func(id string, _ *track) bool { return !listed[id] })
	maps.DeleteFunc(h.orphans, func(id string, _ *ledger) bool { return !listed[id] })
}

// vanished lists by card the uses that the reading no longer has, in order of PID.
func (h *History) vanished(present map[useKey]bool) map[string][]Use {
	gone := map[string][]Use{}
	for k, t := range h.uses {
		if !present[k] && t.last.Known {
			gone[k.card] = append(gone[k.card], t.last)
		}
	}
	for _, uses := range gone {
		slices.SortFunc(uses, func(a, b Use) int { return a.PID - b.PID })
	}
	return gone
}
