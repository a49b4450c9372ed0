package replay

import "github.com/plimsoll/plimsoll/internal/units"

// Held replays the recording under a setting and tells how much was reserved by PyTorch: the most in each stretch of the
// history from edges[i] to edges[i+1]. It ends early where a request fails; the stretches after that hold -1.
func (c *Case) Held(s Setting, t Target, edges []int) []units.Bytes {
	out := make([]units.Bytes, max(0, len(edges)-1))
	for i := range out {
		out[i] = -1
	}
	if len(out) == 0 {
		return out
	}
	a, live := c.begin(s, t, c.below())
	at := 0
	note := func(event int) {
		now := a.Stats().Reserved
		for at+1 < len(out) && event >= edges[at+1] {
			at++
			out[at] = now
		}
		out[at] = max(out[at], now)
	}
	c.feed(a, live, &Outcome{}, hooks{after: note})
	return out
}
