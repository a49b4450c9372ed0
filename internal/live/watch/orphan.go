package watch

import "github.com/plimsoll/plimsoll/internal/units"

const (
	// patience is for how many readings in a row memory must outlive its process: the driver takes a moment to tear down.
	patience = 3
	// orphanLeast is the smallest amount worth naming; a bare CUDA context is larger.
	orphanLeast = 64 * units.MiB
)

// Orphan is memory that outlived its process.
type Orphan struct {
	PID   int
	Who   Identity
	Bytes units.Bytes // 0 when the driver does not say
	// Listed: the driver still lists the PID. Otherwise the bytes are missing from the card and nobody is listed for them.
	Listed bool
}

// unknown marks an amount that cannot be computed because some process hides its own.
const unknown = units.Bytes(-1)

// unattributed is what a card has in use beyond the sum of its processes: the driver's own, and memory nobody is listed for.
func unattributed(c Card, uses []Use) units.Bytes {
	rest := c.Used
	for _, u := range uses {
		if !u.Known {
			return unknown
		}
		rest -= u.Bytes
	}
	return max(0, rest)
}

// ledger books memory of a card that nobody is listed for, and names the process that last held it.
type ledger struct {
	known   bool
	quiet   units.Bytes // unattributed memory while nothing was suspected
	entries []entry
}

type entry struct {
	use   Use
	bytes units.Bytes
	age   int
}

// settle takes one reading's unattributed bytes and the processes that have left the list since the reading before.
func (l *ledger) settle(rest units.Bytes, left []Use) {
	if rest == unknown {
		l.known, l.entries = false, nil
		return
	}
	if !l.known {
		l.known, l.quiet = true, rest
		return
	}
	for _, u := range left {
		if u.Bytes >= orphanLeast {
			l.entries = append(l.entries, entry{use: u, bytes: u.Bytes})
		}
	}
	excess := max(0, rest-l.quiet)
	var booked units.Bytes
	kept := l.entries[:0]
	for _, e := range l.entries {
		// At least half of what the process held must still be missing; it may have freed some on its way out.
		still := min(e.use.Bytes, excess-booked)
		if 2*still < e.use.Bytes {
			continue
		}
		booked += still
		kept = append(kept, entry{e.use, still, e.age + 1})
	}
	l.entries = kept
	if len(kept) == 0 {
		l.quiet = rest
	}
}

// orphans lists the memory that has outlived its process for longer than the driver needs.
func (l *ledger) orphans() []Orphan {
	var out []Orphan
	for _, e := range l.entries {
		if e.age >= patience {
			out = append(out, Orphan{PID: e.use.PID, Who: e.use.Who, Bytes: e.bytes})
		}
	}
	return out
}
