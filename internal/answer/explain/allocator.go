package explain

import (
	"github.com/plimsoll/plimsoll/internal/answer/diagnose"
	"github.com/plimsoll/plimsoll/internal/memory/replay"
)

// replayWorthwhile is the number of events up to which a healthy recording is replayed only to know its blocks to the byte:
// beyond it, the bytes asked for and held are exact all the same, and those in blocks are at least what rounding gives.
const replayWorthwhile = 500_000

// askAllocator replays a recording. Where the allocator model reproduces it, the bytes in whole blocks are known
// exactly; where the run failed, the model says whether other settings would have saved it.
func askAllocator(c *diagnose.Case) {
	if c.OOM == nil && c.Trace.Len() > replayWorthwhile {
		return
	}
	played, err := replay.Open(c.Recording, replay.Options{At: c.Instant + 1})
	if err != nil {
		return // no history, or a backend that is not modelled: nothing can be said
	}
	if played.Fidelity.Exact() {
		c.Peak.Allocated, c.BlocksExact = played.Allocated, true
		c.Blocks = played.AllocatedAt
	}
	if c.OOM == nil {
		return
	}
	if played.Fidelity.Exact() {
		c.Replay = played
	}
	rescue := played.Rescue()
	c.Frag = &diagnose.Fragmentation{
		Valid: played.Fidelity.Exact(), Unused: rescue.Unused, Setting: rescue.Setting, Conf: rescue.Setting.Text, Variable: rescue.Variable,
		Survives: rescue.Survives, Peak: rescue.Peak, Pins: rescue.Pins,
	}
}
