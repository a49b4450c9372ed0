package course

import (
	"encoding/binary"
	"hash/maphash"
	"slices"

	"github.com/plimsoll/plimsoll/internal/units"
)

// A run comes back to where it was: once the cache has grown to what its shapes ask for, each step that has let go of the last one's gradients finds the
// allocator as other steps found it. So a course remembers states, and what each turn came to from each of them; a turn that is known from here is not
// played, and the allocator is brought up to date only when one comes that is not. Nothing is approximated: a state is told by the whole image of the
// allocator (alloc.Image), and where a state has no image every turn is played.

// memory is what a course remembers.
type memory struct {
	ways   map[string]int // by the slots that a turn frees first
	states map[uint64][]*state
	seed   maphash.Seed
	room   int // words that may still be remembered
	image  []uint64
	here   *moment
	real   bool    // the allocator is here; false: only the course is
	at     *moment // where the allocator is; nil: in a state, the beginning of a turn that was known from there
	off    bool    // nothing is remembered
	hits   int     // turns that were known
}

// state is how the allocator stands when a turn has freed what others left, and begins to allocate.
type state struct {
	image []uint64
	turns map[*Bound]*passage
}

// passage is a turn from a state.
type passage struct {
	played Played
	to     *moment
}

// moment is the time between two turns. How it is reached again: by a turn from a state, or by an interlude from another moment; by neither where the course
// was there without remembering the state, and will not be again.
type moment struct {
	allocated units.Bytes
	from      *state
	turn      *Bound
	prior     *moment
	by        interlude
	next      map[int]*state // by the way of the turn that follows
	after     map[interlude]*moment
}

// interlude is something that happens between turns.
type interlude uint8

const (
	emptied interlude = iota // the cache
	forgot                   // what turns of a kind left; the kind is added
)

// remembered is how many words the states of a course may have together.
const remembered = 8 << 20

func newMemory() memory {
	return memory{ways: map[string]int{}, states: map[uint64][]*state{}, seed: maphash.MakeSeed(), room: remembered}
}

// begin is where the first turns start.
func (c *Course) begin() {
	c.here, c.real = &moment{allocated: c.a.Stats().Allocated}, true
	c.at = c.here
}

// wayOf numbers the slots that turns free first.
func (c *Course) wayOf(b *Bound) int {
	var text []byte
	for _, o := range b.ops[:b.frees] {
		text = binary.AppendUvarint(text, uint64(b.from[o&index]))
	}
	way, ok := c.ways[string(text)]
	if !ok {
		way = len(c.ways)
		c.ways[string(text)] = way
	}
	return way
}

// Play runs a turn. A course ends with one that fails.
func (c *Course) Play(b *Bound) Played {
	start := c.here.allocated
	s := c.here.next[b.way]
	at := s == nil // the allocator is in the state
	if at {
		c.arrive()
		c.forgets(b)
		c.at = nil
		if s = c.state(); s != nil {
			if c.here.next == nil {
				c.here.next = map[int]*state{}
			}
			c.here.next[b.way] = s
		}
	}
	if s != nil {
		if known := s.turns[b]; known != nil {
			c.here, c.real = known.to, false
			c.hits++
			return known.played.from(start)
		}
	}
	if !at && c.at != nil && c.at.next[b.way] == s { // where the allocator was left, this turn's beginning leads to the state too
		c.forgets(b)
	} else if !at {
		c.load(s)
	}
	p := c.run(b)
	m := &moment{allocated: c.a.Stats().Allocated}
	if s != nil {
		m.from, m.turn = s, b
		s.turns[b] = &passage{p, m}
	}
	c.here, c.at, c.real = m, m, true
	return p.from(start)
}

// from is the turn with what was allocated when it began, which may have been more than it came to.
func (p Played) from(start units.Bytes) Played {
	p.Allocated = max(p.Allocated, start)
	return p
}

// state is the one the allocator is in; nil where it is not remembered.
func (c *Course) state() *state {
	if c.off {
		return nil
	}
	image, ok := c.a.Image(c.image[:0], c.names)
	c.image = image
	if !ok {
		c.off = true
		return nil
	}
	hash := c.hash(image)
	for _, s := range c.states[hash] {
		if slices.Equal(s.image, image) {
			return s
		}
	}
	if c.room -= len(image); c.room < 0 {
		return nil
	}
	s := &state{image: slices.Clone(image), turns: map[*Bound]*passage{}}
	c.states[hash] = append(c.states[hash], s)
	return s
}

func (c *Course) hash(image []uint64) uint64 {
	var h maphash.Hash
	h.SetSeed(c.seed)
	var word [8]byte
	for _, w := range image {
		binary.LittleEndian.PutUint64(word[:], w)
		_, _ = h.Write(word[:]) // never fails
	}
	return h.Sum64()
}

// arrive brings the allocator to where the course is.
func (c *Course) arrive() {
	if !c.real {
		c.reach(c.here)
		c.at, c.real = c.here, true
	}
}

func (c *Course) reach(m *moment) {
	if m.prior != nil {
		c.reach(m.prior)
		c.interlude(m.by)
		return
	}
	c.load(m.from)
	c.run(m.turn)
}

// load brings the allocator into a state.
func (c *Course) load(s *state) {
	for i := range c.slots {
		c.slots[i].live = false
	}
	c.a.Reload(s.image, func(name uint32) uint32 {
		s := &c.slots[name]
		s.live = true
		return s.ids[s.now]
	})
}

// EmptyCache is torch.cuda.empty_cache().
func (c *Course) EmptyCache() { c.between(emptied) }

// Forget lets everything go that turns of a kind left: the function they ran in returns.
func (c *Course) Forget(k Kind) { c.between(forgot + interlude(k)) }

func (c *Course) between(by interlude) {
	if known := c.here.after[by]; known != nil {
		c.here, c.real = known, false
		return
	}
	c.arrive()
	c.interlude(by)
	m := &moment{allocated: c.a.Stats().Allocated, prior: c.here, by: by}
	if c.here.after == nil {
		c.here.after = map[interlude]*moment{}
	}
	c.here.after[by] = m
	c.here, c.at = m, m
}

func (c *Course) interlude(by interlude) {
	if by == emptied {
		c.a.EmptyCache()
		return
	}
	for i := range c.slots {
		if c.slots[i].kind == Kind(by-forgot) {
			c.let(i)
		}
	}
}
