package diagnose

import (
	"fmt"
	"slices"

	"github.com/plimsoll/plimsoll/internal/answer/report"
	"github.com/plimsoll/plimsoll/internal/evidence/callsite"
	"github.com/plimsoll/plimsoll/internal/memory/tape"
	"github.com/plimsoll/plimsoll/internal/units"
)

// batchScaled is the failing step with a smaller batch: activations and inputs it makes, the request that failed, and what would still have come.
func (c *Case) batchScaled(by float64) change {
	if c.OOM == nil {
		return change{}
	}
	ch := change{scaled: map[int]bool{}, by: by, coming: by}
	from := c.stepBegin()
	for id := len(c.Tape.Initial); id < len(c.Died); id++ {
		if int(c.Born[id]) > from && (c.Category[id] == tape.Activations || c.Category[id] == tape.Inputs && c.OOM.Step > 0) {
			ch.scaled[id] = true
		}
	}
	ch.request = c.OOM.Phase == callsite.Forward || c.OOM.Phase == callsite.Backward || c.OOM.Phase == callsite.User
	return ch
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

// smallerBatch is the remedy of a smaller batch with the number that fits.
func (c *Case) smallerBatch(act units.Bytes) (report.Remedy, change) {
	share := c.largestShare(act)
	half := saving(act/2, halve+c.sameTraining())
	switch {
	case share >= 0.5:
		return half, c.batchScaled(0.5)
	case share <= 0:
		return report.Remedy{Action: "a smaller batch alone does not make it fit: even a single sample is too much beside the rest", CheckedBy: report.ByArithmetic, Saves: act}, change{}
	}
	pieces := int(1/share) + 1
	if float64(pieces-1)*share >= 1 {
		pieces--
	}
	action := fmt.Sprintf("reduce the micro-batch to at most %s of this one and accumulate over %d%s", percent(share), pieces, c.sameTraining())
	if !c.Coming.Exact {
		action = fmt.Sprintf("micro-batch: halving is not enough; at most %s of this one can fit%s", percent(share), c.sameTraining())
	}
	return saving(units.Bytes(float64(act)*(1-share)), action), c.batchScaled(1 / float64(pieces))
}

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
		case v.enough() && (c.Coming.Exact || f.tries[i].usual), c.asBefore(f.tries[i]):
			r.Enough, alone = "yes", true
		case c.lacks(v):
			r.Enough = "no"
			r.Missing = max(v.short, v.needs-v.room)
		}
		if v.played && r.Enough != "" {
			r.CheckedBy = report.ByReplay
		}
	}
	if !alone && c.Coming.Exact {
		c.together(f)
	}
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
			if v := c.try(f.tries[i].and(f.tries[j])); v.enough() {
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
			out.scaled, out.by = x.scaled, x.by
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
