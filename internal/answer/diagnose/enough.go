package diagnose

import (
	"fmt"
	"math"
	"slices"
	"sort"

	"github.com/plimsoll/plimsoll/internal/answer/report"
	"github.com/plimsoll/plimsoll/internal/evidence/callsite"
	"github.com/plimsoll/plimsoll/internal/memory/tape"
	"github.com/plimsoll/plimsoll/internal/units"
)

// batchScaled is the failing step with a smaller batch: activations and inputs it makes, the request that failed, and what would still have come. Where the number of samples is known,
// a tensor whose bytes it does not divide is none of samples and stays as large.
func (c *Case) batchScaled(by float64) change {
	if c.OOM == nil {
		return change{}
	}
	ch := change{scaled: map[int]bool{}, by: by, coming: by, samples: true, kinds: []tape.Category{tape.Activations}}
	if c.OOM.Step > 0 { // in the first step inputs may be a data set
		ch.kinds = append(ch.kinds, tape.Inputs)
	}
	from := c.stepBegin()
	for id := len(c.Tape.Initial); id < len(c.Died); id++ {
		if int(c.Born[id]) > from && slices.Contains(ch.kinds, c.Category[id]) && c.ofSamples(c.Size(id)) {
			ch.scaled[id] = true
		}
	}
	ch.request = c.OOM.Phase == callsite.Forward || c.OOM.Phase == callsite.Backward || c.OOM.Phase == callsite.User
	return ch
}

// ofSamples tells a size that can be that of a whole batch.
func (c *Case) ofSamples(size units.Bytes) bool {
	return c.Batch == 0 || size%units.Bytes(c.Batch) == 0
}

// SetBatch tells how many samples the program puts into a batch. It is not believed where most of what the failing step made cannot be so many samples, as on one of several cards.
func (c *Case) SetBatch(n int) {
	if c.OOM == nil || c.OOM.Eval || n < 2 {
		return
	}
	var fits, all units.Bytes
	for id := len(c.Tape.Initial); id < len(c.Died); id++ {
		if int(c.Born[id]) > c.stepBegin() && c.Category[id] == tape.Activations {
			if all += c.Size(id); c.Size(id)%units.Bytes(n) == 0 {
				fits += c.Size(id)
			}
		}
	}
	if 10*fits >= 9*all && all > 0 {
		c.Batch = n
	}
}

// largestShare is the share of this batch that fits: the memory beside activations stays, activations, the failing request and what was to come shrink with it.
// Where the step was not completed by earlier ones the share is at most this.
func (c *Case) largestShare(act units.Bytes) float64 {
	fixed := c.InUse - act
	varies := act + c.Coming.Bytes + c.OOM.Request
	if varies <= 0 {
		return 1
	}
	share := float64(c.OOM.Limit.Bytes-fixed) / float64(varies)
	for range 6 {
		if share <= 0.005 {
			return 0
		}
		if v := c.try(c.batchScaled(share)); v.enough() {
			return min(share, 1)
		}
		share *= 0.98 // blocks are rounded and cut: what fits by arithmetic may lack a little
	}
	return share
}

// largestBatch is the largest number of samples whose step completes; 0 where the number of samples is not known, none does, or no earlier step says what it takes to complete one. Blocks are cut by
// their sizes, so that a batch somewhat larger than one that fails may complete again: those up to a tenth larger are tried, too.
func (c *Case) largestBatch() int {
	if c.Batch == 0 || !c.Coming.Exact {
		return 0
	}
	fits := func(n int) bool {
		ch := c.batchScaled(float64(n) / float64(c.Batch))
		return c.suffices(c.try(ch), ch)
	}
	most := c.Batch - 1 - sort.Search(c.Batch-1, func(i int) bool { return fits(c.Batch - 1 - i) })
	for step := max(1, most/50); ; {
		larger := 0
		for n := most + step; n <= most+most/10 && n < c.Batch; n += step {
			if fits(n) {
				larger = n
			}
		}
		if larger == 0 {
			return most
		}
		most = larger
	}
}

// smallerBatch is the remedy of a smaller batch with the number that fits.
func (c *Case) smallerBatch(act units.Bytes) (report.Remedy, change) {
	if n := c.largestBatch(); n > 0 {
		return c.samples(act, n)
	}
	share := c.largestShare(act)
	half := saving(act/2, halve+c.sameTraining())
	switch {
	case share >= 0.5:
		return half, c.batchScaled(0.5)
	case share <= 0:
		return report.Remedy{Action: "a smaller batch alone does not make it fit: even a single sample is too much beside the rest", CheckedBy: report.ByArithmetic, Saves: act}, change{}
	}
	parts := partsOf(share)
	action := fmt.Sprintf("reduce the micro-batch to at most %s of this one and accumulate over %d%s", percent(share), parts, c.sameTraining())
	if !c.Coming.Exact {
		action = fmt.Sprintf("micro-batch: halving is not enough; at most %s of this one can fit%s", percent(share), c.sameTraining())
		if n := int(share * float64(c.Batch)); n > 0 {
			action = fmt.Sprintf("micro-batch: halving is not enough; at most %d samples can fit (you used %d)%s", n, c.Batch, c.sameTraining())
		}
	}
	return saving(units.Bytes(float64(act)*(1-share)), action), c.batchScaled(1 / float64(parts))
}

// samples is the remedy of a batch of so many samples.
func (c *Case) samples(act units.Bytes, n int) (report.Remedy, change) {
	share := float64(n) / float64(c.Batch)
	action := fmt.Sprintf("a batch of %d: the largest that fits (you used %d); accumulate over %d%s", n, c.Batch, partsOf(share), c.sameTraining())
	return saving(units.Bytes(float64(act)*(1-share)), action), c.batchScaled(share)
}

// partsOf is how many batches of a share make up a whole one.
func partsOf(share float64) int { return int(math.Ceil(1/share - 1e-9)) }

func percent(share float64) string {
	if p := 100 * share; p < 10 {
		return fmt.Sprintf("%.1f %%", p)
	}
	return fmt.Sprintf("%.0f %%", 100*share)
}

// sameTraining says truthfully whether smaller micro-batches train the same.
func (c *Case) sameTraining() string {
	for i := range c.Origins.Stacks.Frames {
		f := &c.Origins.Stacks.Frames[i]
		if f.Function == "batch_norm" {
			return ": same gradients, but batch norm then sees smaller batches"
		}
	}
	return ": same training, if the loss is a mean over samples"
}

// enough says of each remedy whether it makes the run fit. Yes needs complete steps to know what would still have come; no is said as soon as what is certain
// to come does not fit.
func (c *Case) enough(f *claim) {
	if f.Severity != report.Error {
		return
	}
	alone := false
	for i := range f.tries {
		r := &f.Remedies[i]
		v := c.try(f.tries[i])
		switch {
		case !v.known:
		case c.suffices(v, f.tries[i]):
			r.Enough, alone = "yes", true
		case c.lacks(v):
			r.Enough = "no"
			r.Missing = max(v.short, v.needs-v.room)
		case v.enough():
			if setting := c.withExpandable(f.tries[i]); setting != "" {
				r.Enough, alone = "with: "+setting, true
			}
		}
		if v.played && r.Enough != "" {
			r.CheckedBy = report.ByReplay
		}
	}
	if !alone && c.Coming.Exact {
		c.together(f)
	}
}

// suffices tells that a run with a change completes the step that failed. Where an earlier step says what was still to come, that is played, too, under the least that the limit can be; otherwise
// as much as the failing request must be left over, for blocks of memory are cut and not every piece that is free serves every request.
func (c *Case) suffices(v verdict, ch change) bool {
	completes, played := c.plays(ch)
	if played && ch.samples { // bytes of the failing step alone say less: with fewer samples every step is another
		return completes && c.Coming.Exact
	}
	known := v.enough() && (c.Coming.Exact || ch.usual)
	before := c.asBefore(ch)
	if !known && !before {
		return false
	}
	if played {
		return completes
	}
	return before || ch.usual || ch.coming == nothingMore || v.room-v.needs >= c.OOM.Segment
}

// lacks tells that a change is not enough, wherever the limit lies: a limit that is only known to lie between two bounds is taken at the upper one.
func (c *Case) lacks(v verdict) bool {
	return !v.enough() && max(v.short, v.needs-v.room) > c.OOM.Limit.High-c.OOM.Limit.Bytes
}

// together looks for two remedies that are enough where none is alone.
func (c *Case) together(f *claim) {
	for i := range f.tries {
		for j := i + 1; j < len(f.tries); j++ {
			if f.tries[i].empty() || f.tries[j].empty() {
				continue
			}
			if both := f.tries[i].and(f.tries[j]); c.suffices(c.try(both), both) {
				f.Remedies[i].Enough = "with: " + f.Remedies[j].Action
				return
			}
		}
	}
}

// and is both changes at once. Of two that make the same allocation smaller the second counts.
func (ch change) and(other change) change {
	out := change{never: append(slices.Clone(ch.never), other.never...), saves: ch.saves + other.saves, request: ch.request || other.request, coming: 1}
	for _, x := range []change{ch, other} {
		if x.by > 0 || len(x.scaled) > 0 {
			out.scaled, out.by, out.kinds, out.samples = x.scaled, x.by, x.kinds, x.samples
		}
		if x.coming > 0 {
			out.coming *= x.coming
		}
		if x.setting != nil {
			out.setting = x.setting
		}
	}
	return out
}
