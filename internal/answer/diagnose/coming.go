package diagnose

import (
	"github.com/plimsoll/plimsoll/internal/evidence/callsite"
	"github.com/plimsoll/plimsoll/internal/memory/tape"
	"github.com/plimsoll/plimsoll/internal/units"
)

// Coming is what a step that was interrupted would still have needed, beside the memory in use and the request that failed.
type Coming struct {
	Bytes units.Bytes
	Exact bool   // from complete steps of the same recording; otherwise at least this much
	From  string // how it is known
}

// coming completes the step in which the run failed: as far as earlier steps rose, or, in a first step, by what is certain to follow.
func (c *Case) coming() Coming {
	if rise, ok := c.earlierRise(); ok {
		from := c.stepBegin()
		now := c.InUse + c.OOM.Request - c.levelAt(from)
		ratio, _, _, _ := c.spike() // steps with smaller inputs say only what is needed at least
		return Coming{Bytes: max(0, rise-now), Exact: ratio < spikes, From: "earlier steps"}
	}
	switch c.OOM.Phase {
	case callsite.Optimizer:
		trained := c.By[tape.Gradients]
		left := c.stateToCome(trained) - c.By[tape.Optimizer] - c.OOM.Request
		return Coming{Bytes: max(0, left), From: "the optimizer's state"}
	case callsite.Forward:
		layers, each := c.layers()
		total := c.modelLayers()
		if layers > 1 && total > layers {
			return Coming{Bytes: units.Bytes(total-layers) * each, From: "the model's layers"}
		}
	}
	return Coming{}
}

// earlierRise is the most that complete steps before the failing one (of training, or batches of evaluation) rose above what was in use when they began.
func (c *Case) earlierRise() (units.Bytes, bool) {
	ends := c.stepEnds()
	var most units.Bytes
	found := false
	level, low, high := c.Tape.Before(), units.Bytes(0), units.Bytes(0)
	next, begun := 0, false
	for i := range c.Tape.Events {
		if i > c.OOM.Event {
			break
		}
		level += c.Tape.Events[i].Change()
		if next == 0 && !begun && c.firstForward(i) {
			low, begun = level-c.Tape.Events[i].Change(), true // the first step begins with the first call of the model
		}
		if begun {
			high = max(high, level-low)
		}
		if next < len(ends) && i == ends[next] {
			if begun {
				most, found = max(most, high), true
			}
			low, high, begun = level, 0, true
			next++
		}
	}
	return most, found
}

// firstForward tells an allocation inside a module.
func (c *Case) firstForward(event int) bool {
	e := &c.Tape.Events[event]
	return e.Kind == tape.Alloc && c.Phase[e.ID] == callsite.Forward
}

// asBefore tells that a change takes back what earlier steps began with: some complete step began with as much in use, or more, and ran under the same limit.
func (c *Case) asBefore(ch change) bool {
	if !c.Coming.Exact || len(ch.never) == 0 || c.OOM.Eval {
		return false
	}
	begin := c.stepBegin()
	var kept units.Bytes
	for _, id := range ch.never {
		if id < len(c.Tape.Initial) || int(c.Born[id]) <= begin {
			if c.Alive(id, c.Instant) {
				kept += c.Size(id)
			}
		}
	}
	levels := c.StepLevels()
	now := c.levelAt(begin) - kept
	for i := 0; i+1 < len(levels) && i+1 < len(c.Steps); i++ { // the step after each of these is complete
		if c.Steps[i+1] < c.OOM.Event && levels[i] >= now {
			return true
		}
	}
	return false
}

// stepBegin is the event at which the failing step, or batch of evaluation, began.
func (c *Case) stepBegin() int {
	begin := -1
	for _, e := range c.stepEnds() {
		if e < c.OOM.Event {
			begin = e
		}
	}
	return begin
}

// levelAt is what was in use after an event.
func (c *Case) levelAt(event int) units.Bytes {
	level := c.Tape.Before()
	for i := 0; i <= event; i++ {
		level += c.Tape.Events[i].Change()
	}
	return level
}

// modelLayers counts the repeated layers of the model from the sizes of its parameters, in the order they were put on the card: of all periods
// after which sizes come again, the one that covers most. 0 where none does.
func (c *Case) modelLayers() int {
	var sizes []units.Bytes
	for id := range c.Died {
		if c.Category[id] == tape.Parameters && c.Alive(id, c.Instant) {
			sizes = append(sizes, c.Size(id))
		}
	}
	const longest = 64 // tensors of one layer
	layers, covered := 0, 0
	for period := 1; period <= longest && 2*period <= len(sizes); period++ {
		run, most := 0, 0
		for i := period; i < len(sizes); i++ {
			if run++; sizes[i] != sizes[i-period] {
				run = 0
			}
			most = max(most, run)
		}
		if most >= period && most+period > covered {
			layers, covered = most/period+1, most+period
		}
	}
	return layers
}
