package replay

import (
	"github.com/plimsoll/plimsoll/internal/units"
)

// grain is how exactly the smallest capacity is found: CUDA hands memory out in pieces of this size.
const grain = 2 * units.MiB

// Smallest finds the smallest capacity at which every request is served under a setting: it serves there, and fails
// one grain below. More memory does not always help, since the allocator then recovers at other moments; where a setting
// is known to fail at some capacity (0: not known), the search begins above. 0 says that none was found.
func (c *Case) Smallest(s Setting, t Target, fails units.Bytes) units.Bytes {
	t.Device = 0
	least := max(c.requested/grain*grain-grain, fails/grain*grain, 0)
	enough := c.raised(s, t, least+grain)
	for tries := 0; !c.serves(s, t, enough); tries++ { // a capacity raised on the way need not suffice from the start
		if tries == 8 {
			return 0
		}
		least, enough = enough, max(enough+grain, c.raised(s, t, enough+grain))
	}
	if enough-grain <= least || !c.serves(s, t, enough-grain) {
		return enough
	}
	enough -= grain
	for enough-least > grain {
		middle := (least + (enough-least)/2) / grain * grain
		if c.serves(s, t, middle) {
			enough = middle
		} else {
			least = middle
		}
	}
	return enough
}

// serves tells whether every request is served at a capacity.
func (c *Case) serves(s Setting, t Target, capacity units.Bytes) bool {
	t.Capacity = capacity
	return c.play(s, t, c.below()).OOM == nil
}

// raised replays at a capacity that is raised to what each failing request needs, and gives the last of it.
func (c *Case) raised(s Setting, t Target, from units.Bytes) units.Bytes {
	t.Capacity = from
	a, live := c.begin(s, t, c.below())
	c.feed(a, live, &Outcome{}, hooks{onFailure: func() bool {
		f := a.LastFailure()
		need := (f.Stats.Reserved + f.Segment + grain - 1) / grain * grain
		if need <= t.Capacity {
			return false
		}
		t.Capacity = need
		a.SetCap(need)
		return true
	}})
	return t.Capacity
}
