package diagnose

import (
	"github.com/plimsoll/plimsoll/internal/evidence/callsite"
	"github.com/plimsoll/plimsoll/internal/memory/alloc"
	"github.com/plimsoll/plimsoll/internal/memory/tape"
	"github.com/plimsoll/plimsoll/internal/units"
)

// lastFailure finds the last out-of-memory event.
func (c *Case) lastFailure() *Failure {
	all := c.Failures()
	if len(all) == 0 {
		return nil
	}
	return &all[len(all)-1]
}

// Failures lists every request that failed.
func (c *Case) Failures() []Failure {
	var all []Failure
	for i := range c.Tape.Events {
		if c.Tape.Events[i].Kind == tape.OOM {
			all = append(all, c.failure(i))
		}
	}
	return all
}

func (c *Case) failure(event int) Failure {
	at := int(c.Event[event])
	f := Failure{
		Event: event, Trace: at,
		Request:    units.Bytes(c.Trace.Size[at]),
		DeviceFree: units.Bytes(c.Trace.Addr[at]),
		Held:       c.ReservedAt(event),
		Stack:      c.Trace.Stack[at],
		Step:       c.StepOf(event),
	}
	f.Segment = alloc.Conf{}.SegmentSize(f.Request) // the recorded request is rounded already
	f.Phase, f.Eval = c.PhaseAt(event, f.Stack), c.IsEval(f.Stack)
	if f.Phase == callsite.User && c.forwardBefore(event) {
		f.Phase = callsite.Forward
	}
	if c.Unnamed && len(c.Batches) > 0 && event > c.Batches[0] {
		f.Eval = true
	}
	if eval, _ := c.runsEval(); eval && f.Stack == 0 {
		f.Eval = true
	}
	f.Limit = c.limit(f)
	return f
}

// forwardBefore tells whether the program's own thread was last seen inside a module.
func (c *Case) forwardBefore(event int) bool {
	for i := event; i >= 0; i-- {
		if e := &c.Tape.Events[i]; e.Kind == tape.Alloc && c.Stack[e.ID] != 0 {
			return c.phaseOf(e.ID) == callsite.Forward
		}
	}
	return false
}

func (c *Case) phaseOf(id uint32) callsite.Phase { return c.Phase[id] }

// limit bounds what the process could have had. When the driver had less than was needed, it is what was held plus
// what was free. Otherwise a memory fraction was in force: it lies at or above the most that was ever held and below what
// was held plus the failing segment, and a whole number of GiB in between is the likeliest.
func (c *Case) limit(f Failure) Limit {
	if f.DeviceFree < f.Segment {
		b := f.Held + f.DeviceFree
		return Limit{Low: b, High: b, Bytes: b, From: "driver"}
	}
	l := Limit{Low: c.Peak.Reserved, High: f.Held + f.Segment, From: "bounds"}
	l.Bytes = l.Low
	if whole := (l.Low + units.GiB - 1) / units.GiB * units.GiB; whole < l.High {
		l.Bytes = whole
	}
	return l
}
