package predict

import (
	"github.com/plimsoll/plimsoll/internal/answer/report"
	"github.com/plimsoll/plimsoll/internal/memory/tape"
	"github.com/plimsoll/plimsoll/internal/units"
)

// Moments shortens a tape to about n instants for a drawing: of each stretch of events the one with most bytes requested,
// so that no peak is lost.
func Moments(t *tape.Tape, n int) []report.Moment {
	stretch := max((len(t.Events)+n-1)/max(n, 1), 1)
	var out []report.Moment
	var now, held [tape.Categories]units.Bytes
	var total, best units.Bytes
	var at report.Moment
	step, phase := 0, ""
	for i := range t.Events {
		e := &t.Events[i]
		switch e.Kind {
		case tape.Mark:
			step, phase = t.Moments[e.Owner].Step, t.Moments[e.Owner].Phase
		case tape.Alloc:
			now[t.Owners[e.Owner].Category] += e.Size
			total += e.Size
		case tape.Free:
			now[t.Owners[e.Owner].Category] -= e.Size
			total -= e.Size
		}
		if total >= best {
			best, held = total, now
			at = report.Moment{Event: i, Step: step, Phase: phase, Requested: total}
		}
		if (i+1)%stretch == 0 || i == len(t.Events)-1 {
			at.ByCategory = byName(held)
			out = append(out, at)
			best = 0
		}
	}
	return out
}

func byName(now [tape.Categories]units.Bytes) map[string]units.Bytes {
	out := make(map[string]units.Bytes, len(now))
	for c, b := range now {
		out[tape.Category(c).String()] = b
	}
	return out
}
