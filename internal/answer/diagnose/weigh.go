package diagnose

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/plimsoll/plimsoll/internal/answer/finding"
	"github.com/plimsoll/plimsoll/internal/answer/report"
	"github.com/plimsoll/plimsoll/internal/evidence/callsite"
	"github.com/plimsoll/plimsoll/internal/memory/tape"
)

// tier is the place of a cause in the answer; lower comes first.
type tier uint8

const (
	decides     tier = iota // abnormal, and without it the request is served and the step has room
	weighs                  // abnormal and a quarter of what is in use, or more
	pieces                  // the allocator, where settings alone give real room
	special                 // normal: says why there is so much
	general                 // normal: says only that there is much
	postpones               // the allocator, where settings put the failure off
	contributes             // abnormal and small
	remarks                 // not about the failure
)

// weigh plays the run without each cause and puts the causes in order.
func (c *Case) weigh(claims []claim) []claim {
	tiers := make([]tier, len(claims))
	order := make([]int, len(claims))
	for i := range claims {
		claims[i].verdict = c.try(claims[i].without)
		tiers[i], order[i] = c.tier(&claims[i]), i
	}
	c.piecesFirst(claims, tiers)
	strongest := slices.Min(append(slices.Clone(tiers), remarks))
	for i := range claims {
		c.subordinate(&claims[i], tiers[i], strongest)
	}
	slices.SortStableFunc(order, func(x, y int) int {
		a, b := &claims[x], &claims[y]
		return cmp.Or(cmp.Compare(weight(b.Severity), weight(a.Severity)), cmp.Compare(tiers[x], tiers[y]), c.within(a, b, tiers[x]))
	})
	out := make([]claim, len(claims))
	for i, k := range order {
		out[i] = claims[k]
	}
	return out
}

// onlyPieces tells that the memory in use is not the problem: with the request and all that the step still needs it fits the limit, whether settings help or not.
// Where the rest of the step is not known, as much again as this step has made must fit; a program that never calls a model has no step.
func (c *Case) onlyPieces(f *claim) bool {
	if 20*f.Bytes < c.OOM.Held || 2*(c.PrivatePools()+c.PendingFree()) >= f.Bytes { // pools of graphs and waiting streams keep theirs for themselves
		return false
	}
	if c.stillFilling() || c.dark() && 2*f.Bytes < c.OOM.Held {
		return false
	}
	need := c.Coming.Bytes
	if !c.Coming.Exact && c.callsModel() {
		need = max(need, c.OOM.Request, c.thisStep(tape.Activations))
	}
	return c.InUse+c.OOM.Request+need <= c.OOM.Limit.Low
}

// dark tells that nobody can say what most of the memory in use is for: no stacks were recorded, or it was there before the history began. Then only pieces that make up most of what is
// held are an explanation: on recordings without stacks all that had less were something else (2 right of 2 with 71 and 74 % in pieces, 8 wrong of 8 with at most 28 %).
func (c *Case) dark() bool {
	return (!c.Certain || !c.Complete && 2*c.By[tape.Other] >= c.InUse) && !c.asUsual()
}

// asUsual tells that the card has served about as much before, rising from far below as now, and that another setting of the allocator serves it again: then pieces are what is different.
func (c *Case) asUsual() bool {
	if c.Frag == nil || !c.Frag.Survives {
		return false
	}
	need, level := c.InUse+c.OOM.Request, c.Tape.Before()
	rises, low := 0, true
	for i := range c.OOM.Event {
		level += c.Tape.Events[i].Change()
		switch {
		case 5*level <= 2*need:
			low = true
		case low && 5*level >= 4*need:
			rises, low = rises+1, false
		}
	}
	return rises >= 2 // this one, and one before it
}

// stillFilling tells that the request failed in the midst of a loop that keeps what it makes: most of what is in use came from the very same line.
// How much that loop would still ask for is not known, so that nobody can say the rest fits.
func (c *Case) stillFilling() bool {
	if c.OOM.Stack == 0 {
		return false
	}
	for _, g := range c.ByStack(c.OOM.Event) {
		if g.Stack == c.OOM.Stack && g.Count >= 8 && 2*g.Bytes >= c.InUse {
			return true
		}
	}
	return false
}

// callsModel tells whether anything was asked for inside a module.
func (c *Case) callsModel() bool {
	return slices.Contains(c.Phase, callsite.Forward)
}

// piecesFirst puts the allocator before everything that does not grow: the job fits, and only the pieces are too small.
func (c *Case) piecesFirst(claims []claim, tiers []tier) {
	at := slices.Index(tiers, pieces)
	if at < 0 {
		return
	}
	for j := range claims {
		if tiers[j] <= weighs && growing[claims[j].ID] {
			return
		}
	}
	tiers[at] = decides
	for j := range claims {
		if j != at && tiers[j] == decides {
			tiers[j] = weighs
		}
	}
}

// growing are causes that come back however much room there is.
var growing = map[string]bool{"growth": true, "eval-graph-kept": true, "eval-outputs-kept": true, "graph-kept-in-generation": true}

// within orders causes of one tier: abnormal ones by what their absence gives, others by how sure they are.
func (c *Case) within(a, b *claim, t tier) int {
	if c.OOM == nil {
		return cmp.Compare(b.Bytes, a.Bytes)
	}
	if t == decides || t == weighs {
		return cmp.Or(cmp.Compare(c.saved(b.without), c.saved(a.without)), cmp.Compare(b.Confidence, a.Confidence))
	}
	return cmp.Compare(b.Confidence, a.Confidence)
}

func (c *Case) tier(f *claim) tier {
	if c.OOM == nil || f.Severity != report.Error {
		return remarks
	}
	switch f.kind {
	case abnormal:
		switch {
		case f.verdict.enough():
			return decides
		case 4*f.Bytes >= c.InUse:
			return weighs
		}
		return contributes
	case allocator:
		if f.ID == "fragmentation" && c.onlyPieces(f) {
			return pieces
		}
		return postpones
	}
	if finding.Is(f.ID, finding.General) {
		return general
	}
	return special
}

// subordinate makes a cause that a stronger one covers a remark beside it.
func (c *Case) subordinate(f *claim, t, strongest tier) {
	if c.OOM == nil || t == remarks || t == strongest {
		return
	}
	switch {
	case strongest <= weighs && t > weighs:
		f.Severity = report.Warning
	case t == postpones || t == contributes:
		f.Severity = report.Warning
	}
}

func weight(severity string) int {
	return map[string]int{report.Error: 2, report.Warning: 1, report.Remark: 0}[severity]
}

// judge says what the run without a cause came to, whether each remedy is enough, and how sure that makes the cause.
func (c *Case) judge(f *claim, all []claim) {
	if c.OOM == nil {
		return
	}
	if text := c.told(f.verdict); text != "" && f.Severity == report.Error && f.kind == abnormal {
		f.Evidence = append(f.Evidence, text)
	}
	c.enough(f)
	f.Confidence = math.Round(100*c.confidence(f, all)) / 100
}

// told says what a played run came to.
func (c *Case) told(v verdict) string {
	switch {
	case !v.played:
		return ""
	case v.passes && v.needs > v.room:
		return fmt.Sprintf("replayed without it, the request succeeds, but only %s is left and the step needs %s more", v.room, v.needs)
	case v.passes:
		return fmt.Sprintf("replayed without it under the same limit, the request succeeds and %s is left", v.room)
	}
	return fmt.Sprintf("replayed without it, the run still fails: %s is missing", v.short)
}

// notCertain is the most that is claimed without proof: 95 % and more need a play that leaves room for a whole further step, and no other explanation of the memory. Another
// setting of the allocator is no such proof: it moves the failure, and says nothing about what filled the card.
const notCertain = 0.94

// confidence is what the rule believes, corrected by what the play showed.
func (c *Case) confidence(f *claim, all []claim) float64 {
	sure := f.Confidence
	if f.Severity != report.Error {
		return min(sure, notCertain)
	}
	if f.kind == abnormal {
		switch {
		case f.verdict.known && !f.verdict.enough():
			sure = min(sure, 0.8)
		case !f.verdict.known:
			sure = min(sure, 0.9)
		}
	}
	rise, stepped := c.earlierRise()
	proven := f.kind == abnormal && f.verdict.played && f.verdict.enough() && stepped && f.verdict.room >= rise
	for i := range all {
		other := &all[i]
		if other.ID == f.ID || other.Severity != report.Error {
			continue
		}
		proven = proven && 2*other.Bytes < f.Bytes
		if other.kind == abnormal && other.verdict.enough() && 2*other.Bytes >= f.Bytes {
			sure = min(sure, 0.75) // another cause would have done as well
		}
	}
	if !proven {
		sure = min(sure, notCertain)
	}
	return sure
}
