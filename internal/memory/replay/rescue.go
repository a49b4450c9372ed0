package replay

import (
	"github.com/plimsoll/plimsoll/internal/answer/report"
	"github.com/plimsoll/plimsoll/internal/units"
)

// Rescue is whether settings alone would have saved a run that failed.
type Rescue struct {
	Setting  Setting     // the one to use, where Survives
	Survives bool        // every request is served under it within the recorded limit
	Peak     units.Bytes // reserved under it
	Variable string      // the environment variable to put it into
	Unused   units.Bytes // held and not in use when it failed
	Pins     []report.Place
}

// Rescue looks for a setting that needs nothing but an environment variable. Expandable segments come first, since they
// need no tuning; then whatever holds least. Without a recorded limit there is nothing to survive.
func (c *Case) Rescue() Rescue {
	out := Rescue{Variable: c.Torch.EnvVar()}
	f := c.fragmented()
	out.Unused = f.Reserved - f.InUse
	for _, p := range f.Pins {
		if p.Where != nil {
			out.Pins = append(out.Pins, *p.Where)
		}
	}
	if !c.Limit.Known() {
		return out
	}
	target := Target{Capacity: c.Limit.Cap, Device: c.Limit.Device}
	for _, s := range Settings(c.Torch, false) {
		if s.Conf == c.Conf {
			continue
		}
		o := c.play(s, target, c.below())
		if o.OOM != nil || out.Survives && o.Peak.Reserved >= out.Peak {
			continue
		}
		out.Setting, out.Survives, out.Peak = s, true, o.Peak.Reserved
		if s.Conf.Expandable {
			break
		}
	}
	return out
}
