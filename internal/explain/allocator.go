package explain

import (
	"github.com/plimsoll/plimsoll/internal/diagnose"
	"github.com/plimsoll/plimsoll/internal/recorded"
	"github.com/plimsoll/plimsoll/internal/replay"
)

// askAllocator lets the allocator model say whether other settings would have saved a run that failed.
func askAllocator(c *diagnose.Case, r *recorded.Recording) {
	if c.OOM == nil {
		return
	}
	played, err := replay.Open(r, replay.Options{})
	if err != nil {
		return // no history, or a backend that is not modelled: nothing can be said
	}
	rescue := played.Rescue()
	c.Frag = &diagnose.Fragmentation{
		Valid: played.Fidelity.Exact(), Unused: rescue.Unused, Conf: rescue.Setting.Text, Variable: rescue.Variable,
		Survives: rescue.Survives, Peak: rescue.Peak, Pins: rescue.Pins,
	}
}
