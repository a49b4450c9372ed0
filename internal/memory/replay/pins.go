package replay

import (
	"cmp"
	"slices"

	"github.com/plimsoll/plimsoll/internal/evidence/recording"
	"github.com/plimsoll/plimsoll/internal/memory/alloc"
	"github.com/plimsoll/plimsoll/internal/units"
	"github.com/plimsoll/plimsoll/snapshot"
)

// Fragmentation is memory held but not in use at an instant, and what keeps it from being given back.
type Fragmentation struct {
	Event    int // of the history: the failure, or where most was reserved
	Reserved units.Bytes
	Active   units.Bytes
	// Cached is unused memory in segments nothing lives in: it can be given back. Pinned is unused memory in segments
	// that mostly lie empty and cannot.
	Cached, Pinned units.Bytes
	Pins           []Pin // the most memory first
}

// Pin is allocations of one stack that are the last to live in segments that mostly lie empty.
type Pin struct {
	Stack    snapshot.StackID
	Blocks   int
	Bytes    units.Bytes // of the blocks
	Segments int
	Pinned   units.Bytes // unused in those segments
}

// Fragmentation looks at the recorded run at its failure, or where it reserved most.
func (c *Case) Fragmentation() Fragmentation {
	f := Fragmentation{Event: c.instant()}
	v := &validation{c: c, limit: c.Limit}
	v.start()
	v.until(f.Event)
	stats := v.a.Stats()
	f.Reserved, f.Active = stats.Reserved, stats.Active
	pins := map[snapshot.StackID]*Pin{}
	for _, s := range v.a.Segments() {
		c.pin(&f, pins, &s)
	}
	for _, p := range pins {
		f.Pins = append(f.Pins, *p)
	}
	slices.SortFunc(f.Pins, func(x, y Pin) int {
		return cmp.Or(cmp.Compare(y.Pinned, x.Pinned), cmp.Compare(x.Stack, y.Stack))
	})
	return f
}

// instant is the event to look at: the last failure, or the one that reserved most.
func (c *Case) instant() int {
	t := c.Recording.Trace
	now, peak, at, failure := c.Recording.Reserved, c.Recording.Reserved, 0, -1
	for i, a := range t.Action {
		switch {
		case isGrowth(a):
			now += units.Bytes(t.Size[i])
		case isRelease(a):
			now -= units.Bytes(t.Size[i])
		case a == snapshot.ActionOOM:
			failure = i
		}
		if now > peak {
			peak, at = now, i
		}
	}
	if failure >= 0 {
		return failure
	}
	return at
}

// pin accounts for one segment. The block that dies last holds it.
func (c *Case) pin(f *Fragmentation, pins map[snapshot.StackID]*Pin, s *alloc.SegmentState) {
	var used, unused units.Bytes
	last := -1
	for i, b := range s.Blocks {
		switch {
		case !b.Mapped:
		case b.Free:
			unused += b.Size
		default:
			used += b.Size
			if last < 0 || c.died(b.ID) > c.died(s.Blocks[last].ID) {
				last = i
			}
		}
	}
	if last < 0 {
		f.Cached += unused
		return
	}
	if unused <= used || s.Expandable {
		return
	}
	f.Pinned += unused
	stack := c.Recording.Stack[s.Blocks[last].ID]
	p := pins[stack]
	if p == nil {
		p = &Pin{Stack: stack}
		pins[stack] = p
	}
	p.Blocks++
	p.Bytes += s.Blocks[last].Size
	p.Segments++
	p.Pinned += unused
}

func (c *Case) died(id uint32) uint32 {
	if int(id) >= len(c.Recording.Died) {
		return recording.NeverFreed
	}
	return c.Recording.Died[id]
}
