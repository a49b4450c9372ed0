package course

import (
	"github.com/plimsoll/plimsoll/internal/memory/alloc"
	"github.com/plimsoll/plimsoll/internal/memory/tape"
	"github.com/plimsoll/plimsoll/internal/units"
)

// Course is a run in progress.
type Course struct {
	a      *alloc.Allocator
	places map[key]int
	slots  []slot
	next   uint32   // the first id that no slot has
	ids    []uint32 // of a turn's own allocations
	names  []uint32 // by id: its slot
	memory
}

// slot is where something lies that outlives its turn. Its next value is made before the old one is let go, so it has two ids.
type slot struct {
	ids  [2]uint32
	now  uint8 // which of them holds it
	live bool
	kind Kind
}

// Bound is a turn that knows the slots of one course; it is used by that course alone.
type Bound struct {
	*Turn
	from  []int // by what it frees of earlier turns: the slot
	to    []int // by what it leaves
	frees int   // how many events at its beginning free what earlier turns left
	way   int   // which slots these are: turns that free the same have the same way
}

// Played is what a turn came to.
type Played struct {
	Allocated units.Bytes // at its peak
	Held      units.Bytes // reserved at its peak
	Reserved  units.Bytes // after it
	Retries   int         // in it
	Declined  int         // workspaces that were refused in it
	// Failed tells that a request found no memory. Event counts the allocations and frees before it, Failure describes it.
	Failed  bool
	Event   int
	Failure alloc.Failure
}

// Start plays the beginning of a run, up to an event of a tape: the model is loaded, and a first step run.
func Start(p alloc.Policy, t *tape.Tape, to int) (*Course, Played) {
	c := &Course{places: map[key]int{}, next: uint32(t.Allocs), names: make([]uint32, t.Allocs), memory: newMemory()}
	p.IDs = t.Allocs
	c.a = alloc.New(p)
	count := 0
	for i := range t.Events[:to] {
		switch e := &t.Events[i]; e.Kind {
		case tape.Alloc:
			if !c.take(e.ID, e.Size, e.Elastic) {
				return c, c.failed(alloc.Stats{}, count)
			}
			count++
		case tape.Free:
			c.a.Free(e.ID, false)
			count++
		}
	}
	cut := newCutter(t)
	cut.read(0, to)
	ordinals := cut.ordinals()
	for id, live := range cut.live {
		if live {
			i := c.slot(cut.key(uint32(id), Training, ordinals))
			c.slots[i].ids[0], c.slots[i].live = uint32(id), true
			c.names[id] = uint32(i)
		}
	}
	c.begin()
	return c, c.played(alloc.Stats{})
}

// slot is the place of a key.
func (c *Course) slot(k key) int {
	i, ok := c.places[k]
	if !ok {
		i = len(c.slots)
		c.places[k] = i
		c.slots = append(c.slots, slot{ids: [2]uint32{c.next, c.next + 1}, kind: k.kind})
		c.next += 2
		c.names = append(c.names, uint32(i), uint32(i))
	}
	return i
}

// Bind prepares a turn to be played, any number of times.
func (c *Course) Bind(t *Turn) *Bound {
	b := &Bound{Turn: t, from: make([]int, len(t.gets)), to: make([]int, len(t.left))}
	for i, k := range t.gets {
		b.from[i] = c.slot(k)
	}
	for i, l := range t.left {
		b.to[i] = c.slot(l.key)
	}
	for len(c.ids) < len(t.sizes) {
		c.ids = append(c.ids, c.next)
		c.names = append(c.names, 0)
		c.next++
	}
	for b.frees < len(t.ops) && t.ops[b.frees]&verbs == forget {
		b.frees++
	}
	b.way = c.wayOf(b)
	return b
}

// forgets plays the beginning of a turn.
func (c *Course) forgets(b *Bound) {
	for _, o := range b.ops[:b.frees] {
		c.let(b.from[o&index])
	}
}

// run plays the rest of a turn. A course ends with one that fails.
func (c *Course) run(b *Bound) Played {
	c.a.ResetPeaks()
	before := c.a.Stats()
	own := c.lend(b)
	for i, o := range b.ops[b.frees:] {
		switch n := o & index; o & verbs {
		case take, elastic:
			if !c.take(c.ids[n], b.sizes[n], o&verbs == elastic) {
				return c.failed(before, b.frees+i)
			}
		case drop:
			c.a.Free(c.ids[n], false)
		case forget:
			c.let(b.from[n])
		}
	}
	for i, l := range b.left {
		s := &c.slots[b.to[i]]
		c.let(b.to[i]) // where the turn has not freed what it replaces
		s.now, s.live = 1-s.now, true
		c.ids[l.own] = own[i]
	}
	return c.played(before)
}

// lend gives what outlives the turn the ids of its slots, and says which ones these allocations had.
func (c *Course) lend(b *Bound) []uint32 {
	own := make([]uint32, len(b.left))
	for i, l := range b.left {
		s := &c.slots[b.to[i]]
		own[i], c.ids[l.own] = c.ids[l.own], s.ids[1-s.now]
	}
	return own
}

func (c *Course) take(id uint32, size units.Bytes, elastic bool) bool {
	return c.a.Malloc(id, size, 0, 0) || elastic && c.a.Decline()
}

// let frees what lies in a slot.
func (c *Course) let(i int) {
	if s := &c.slots[i]; s.live {
		s.live = false
		c.a.Free(s.ids[s.now], false)
	}
}

func (c *Course) played(before alloc.Stats) Played {
	now := c.a.Stats()
	return Played{
		Allocated: now.Peak.Allocated, Held: now.Peak.Reserved, Reserved: now.Reserved,
		Retries: now.Retries - before.Retries, Declined: now.Declined - before.Declined,
	}
}

func (c *Course) failed(before alloc.Stats, event int) Played {
	p := c.played(before)
	p.Failed, p.Event, p.Failure = true, event, c.a.LastFailure()
	return p
}
