package diagnose

import (
	"github.com/plimsoll/plimsoll/internal/answer/report"
	"github.com/plimsoll/plimsoll/internal/memory/replay"
	"github.com/plimsoll/plimsoll/internal/memory/tape"
	"github.com/plimsoll/plimsoll/internal/units"
	"github.com/plimsoll/plimsoll/snapshot"
)

// kind says how a cause stands to a sound program. It decides the order: what should not be there comes before what a job of this size needs, and
// that before the way the allocator hands memory out.
type kind uint8

const (
	abnormal  kind = iota // kept, copied, gathered, spiked, recorded where nothing is trained
	normal                // activations, optimizer state, the model
	allocator             // fragmentation and its kin
)

// claim is a cause that a rule sees: what it says, and the run as it would have been without it.
type claim struct {
	report.Finding
	kind    kind
	without change   // the run without this cause
	tries   []change // the run with each remedy, by its index; an empty change cannot be played
	verdict verdict
}

// change is a difference between the recorded run and one that might have been.
type change struct {
	never   []int           // allocations that are never made
	scaled  map[int]bool    // allocations that are made smaller
	by      float64         // the factor for them, and for the failing request where request is set
	kinds   []tape.Category // what is made smaller by the same factor in a run that is played to the end of the step
	samples bool            // because there are fewer samples: what is not a whole number of them stays as large
	request bool            // the failing request is scaled too, or never made where by is 0
	setting *replay.Setting // another configuration of the allocator
	coming  float64         // factor for what the step still needs; 0: 1
	usual   bool            // the step is brought back to the size that earlier steps had
	saves   units.Bytes     // set where no list of allocations says it: arithmetic decides
}

// nothingMore is the factor for what the step still needs where a layer then gives up its memory for the next.
const nothingMore = 1e-9

func (ch *change) empty() bool {
	return len(ch.never) == 0 && len(ch.scaled) == 0 && !ch.request && ch.setting == nil && ch.saves == 0
}

// verdict is what a played change comes to.
type verdict struct {
	known  bool        // it could be played or computed
	played bool        // by the allocator model, not by arithmetic
	passes bool        // the failing request is served
	room   units.Bytes // left then, under the same limit
	short  units.Bytes // missing where it is not served
	needs  units.Bytes // what the step still needs after that request, as far as known
}

// enough tells that the request is served and the rest of the step has room.
func (v verdict) enough() bool { return v.known && v.passes && v.room >= v.needs }

// try plays a change under the limit of the recorded run.
func (c *Case) try(ch change) verdict {
	if c.OOM == nil || ch.empty() {
		return verdict{}
	}
	v := verdict{known: true}
	v.needs = c.Coming.Bytes
	if ch.coming > 0 {
		v.needs = units.Bytes(float64(v.needs) * ch.coming)
	}
	if c.Replay != nil && ch.saves == 0 {
		if p, ok := c.Replay.Play(ch.edit()); ok {
			v.played, v.passes, v.room, v.short = true, p.Passes, p.Room, p.Short
			return v
		}
	}
	if ch.setting != nil {
		return verdict{}
	}
	saved := c.saved(ch)
	missing := c.OOM.Held + c.OOM.Segment - c.OOM.Limit.Bytes
	v.passes = saved >= missing
	v.room = c.OOM.Limit.Bytes - (c.InUse + c.OOM.Request - saved)
	v.short = max(0, missing-saved)
	return v
}

// edit turns a change into one of the history.
func (ch *change) edit() replay.Edit {
	never := make(map[uint32]bool, len(ch.never))
	for _, id := range ch.never {
		never[uint32(id)] = true
	}
	e := replay.Edit{Setting: ch.setting}
	e.Size = func(id uint32, recorded units.Bytes) units.Bytes {
		if never[id] {
			return 0
		}
		if ch.scaled[int(id)] {
			return units.Bytes(float64(recorded) * ch.by)
		}
		return recorded
	}
	if ch.request {
		e.Request = func(recorded units.Bytes) units.Bytes { return units.Bytes(float64(recorded) * ch.by) }
	}
	return e
}

// saved is what a change makes smaller at the failure.
func (c *Case) saved(ch change) units.Bytes {
	sum := ch.saves
	for _, id := range ch.never {
		if c.Alive(id, c.Instant) {
			sum += c.Size(id)
		}
	}
	for id := range ch.scaled {
		if c.Alive(id, c.Instant) {
			sum += units.Bytes(float64(c.Size(id)) * (1 - ch.by))
		}
	}
	if ch.request {
		sum += units.Bytes(float64(c.OOM.Request) * (1 - ch.by))
	}
	return sum
}

// aliveWhere lists the allocations alive at the failure, or the peak, that a condition picks.
func (c *Case) aliveWhere(keep func(id int) bool) (ids []int, sum units.Bytes) {
	for id := range c.Died {
		if c.Alive(id, c.Instant) && keep(id) {
			ids = append(ids, id)
			sum += c.Size(id)
		}
	}
	return ids, sum
}

// inside lists what stacks made that is alive.
func (c *Case) inside(stacks []snapshot.StackID) []int {
	wanted := map[snapshot.StackID]bool{}
	for _, s := range stacks {
		wanted[s] = true
	}
	ids, _ := c.aliveWhere(func(id int) bool { return wanted[c.Stack[id]] })
	return ids
}

// remedy adds a remedy and the run with it.
func (f *claim) remedy(r report.Remedy, ch change) {
	for len(f.tries) < len(f.Remedies) {
		f.tries = append(f.tries, change{})
	}
	f.Remedies = append(f.Remedies, r)
	f.tries = append(f.tries, ch)
}
