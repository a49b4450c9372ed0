package replay

import (
	"github.com/plimsoll/plimsoll/internal/memory/alloc"
	"github.com/plimsoll/plimsoll/internal/units"
	"github.com/plimsoll/plimsoll/snapshot"
)

// infer finds the limit under which the recording replays best and keeps that replay.
func (c *Case) infer(known units.Bytes) {
	peak, suspicious := c.bound()
	c.Limit.Cap, c.Limit.Given = known, known > 0
	if known > 0 {
		c.keep(c.validate(c.Limit, false), peak)
		return
	}
	if !suspicious {
		v := c.validate(c.Limit, false)
		if c.Conf.GarbageCollection == 0 || v.f.FirstDivergence < 0 {
			c.Limit.AtLeast, c.Limit.Below = 0, 0
			c.keep(v, peak)
			return
		}
	}
	if c.Conf.GarbageCollection > 0 {
		c.Limit.Cap = c.searchCap()
	} else if c.Limit.Device == 0 {
		c.Limit.Cap = roundest(c.Limit.AtLeast, c.Limit.Below)
	}
	c.keep(c.validate(c.Limit, false), peak)
	c.doubtCap(peak)
}

// doubtCap tries the other explanation where a cap does not explain everything: memory was given back by calls of
// empty_cache alone.
func (c *Case) doubtCap(peak units.Bytes) {
	if c.Fidelity.Exact() || c.Fidelity.OOMs > 0 {
		return
	}
	limit, fidelity := c.Limit, c.Fidelity
	c.Limit = Limit{}
	free := c.validate(c.Limit, false)
	if c.keep(free, peak); !c.Fidelity.better(fidelity) {
		c.Limit = limit
		c.keep(c.validate(limit, false), peak)
	}
}

// keep adopts a replay as the case's own.
func (c *Case) keep(v *validation, peak units.Bytes) {
	c.Fidelity = v.f
	c.Fidelity.ReservedPeakRecorded = peak
	c.Fidelity.SegmentEvents = 0
	for _, a := range c.Recording.Trace.Action {
		if isSegment(a) {
			c.Fidelity.SegmentEvents++
		}
	}
	peaks := v.a.Stats().Peak
	c.InUse, c.Allocated, c.requested = peaks.Active, peaks.Allocated, peaks.Requested
	c.EmptyCaches, c.AllocatedAt = v.calls, v.allocatedAt
	c.tape = c.Recording.Tape
	c.tape.Events, c.event = v.tape, v.event
}

// bound follows the bytes held through the history: their peak, and the interval a cap must lie in. A cap is at least
// what every served request needed (held before it, and the whole segment it asked for: alloc_block in
// CUDACachingAllocator.cpp) and below what a request needed that made PyTorch give memory back or fail. It reports
// whether there was such a request.
func (c *Case) bound() (peak units.Bytes, suspicious bool) {
	r := c.Recording
	t, now := r.Trace, r.Reserved
	model := alloc.New(alloc.Policy{Conf: c.Conf, Torch: c.Torch})
	peak = now
	need := make([]units.Bytes, len(c.runs)) // by run: held before, and the segment asked for
	for i := range c.runs {
		run := &c.runs[i]
		run.before = now
		for j := run.first; j < run.end; j++ {
			switch size := units.Bytes(t.Size[j]); {
			case isGrowth(t.Action[j]):
				now += size
			case isRelease(t.Action[j]):
				now -= size
			}
			peak = max(peak, now)
		}
		if !run.serves(t) {
			continue
		}
		more := model.SegmentFor(units.Bytes(t.Size[run.next]))
		if run.grows && t.Action[run.next] == snapshot.ActionAlloc {
			c.Limit.AtLeast = max(c.Limit.AtLeast, now-run.taken+more)
		}
		if run.releases && run.cause(r.Snapshot, t) != calledByUser {
			need[i] = run.before + more
		}
	}
	c.Limit.AtLeast = max(c.Limit.AtLeast, r.Reserved)
	for i, n := range need {
		if n > c.Limit.AtLeast && c.Conf.GarbageCollection == 0 {
			suspicious = true
			c.lower(n)
		} else if n > 0 && c.Conf.GarbageCollection > 0 {
			suspicious = true
			c.lower(max(n, units.Bytes(float64(c.runs[i].before)/c.Conf.GarbageCollection)))
		}
	}
	return peak, c.boundByFailures(model) || suspicious
}

// boundByFailures takes in the recorded failures: the device's end where it had less free than was asked for, a cap
// otherwise.
func (c *Case) boundByFailures(model *alloc.Allocator) bool {
	t, runs := c.Recording.Trace, c.runs
	now, failed := c.Recording.Reserved, false
	for i, a := range t.Action {
		for len(runs) > 0 && runs[0].first < i && runs[0].end <= i {
			now = runs[0].before + runs[0].taken - runs[0].released
			runs = runs[1:]
		}
		if a != snapshot.ActionOOM {
			continue
		}
		failed = true
		more := model.SegmentFor(units.Bytes(t.Size[i]))
		if free := units.Bytes(t.Addr[i]); free >= 0 && free < more {
			c.Limit.Device = max(c.Limit.Device, now+free)
			continue
		}
		c.lower(now + more)
	}
	return failed
}

// lower brings the bound above the cap down.
func (c *Case) lower(n units.Bytes) {
	if c.Limit.Below == 0 || n < c.Limit.Below {
		c.Limit.Below = n
	}
}

// roundest is the roundest number in [from, below): people and schedulers set caps in whole GiB.
func roundest(from, below units.Bytes) units.Bytes {
	for step := units.TiB; step > 1; step /= 2 {
		if n := (from + step - 1) / step * step; n > 0 && (below == 0 || n < below) {
			return n
		}
	}
	return from
}

// searchCap looks for the cap under which garbage collection happens where it was recorded, by halving the interval:
// a cap that is too low collects too early. The roundest number that serves as well is taken.
func (c *Case) searchCap() units.Bytes {
	from, below := c.Limit.AtLeast, c.Limit.Below
	if below <= from {
		below = 2*from + 1
	}
	best, reach := from, -1
	for below-from > 512 {
		middle := from + (below-from)/2
		exact, tooLow, until := c.tryCap(middle)
		if exact {
			return c.rounder(middle, from, below)
		}
		if until > reach {
			best, reach = middle, until
		}
		if tooLow {
			from = middle
		} else {
			below = middle
		}
	}
	return best
}

// tryCap replays under a cap until something differs.
func (c *Case) tryCap(n units.Bytes) (exact, tooLow bool, until int) {
	limit := c.Limit
	limit.Cap = n
	v := c.validate(limit, true)
	return v.f.FirstDivergence < 0, v.tooLow, v.f.FirstDivergence
}

// rounder is the roundest number near a cap that reproduces the recording as well.
func (c *Case) rounder(found, from, below units.Bytes) units.Bytes {
	for step := units.TiB; step >= units.MiB; step /= 2 {
		for _, n := range []units.Bytes{found / step * step, (found + step - 1) / step * step} {
			if n <= from || n >= below {
				continue
			}
			if exact, _, _ := c.tryCap(n); exact {
				return n
			}
		}
	}
	return found
}
