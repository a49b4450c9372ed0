// Package diagnose finds the causes of an out-of-memory error, and of waste, in the evidence of a run.
//
// It takes a Case: the timeline of a device, messages, or both and returns findings, most convincing first, each with its numbers, the
// lines of the user's code, what would refute it, and remedies in order of what they cost the user. A rule is one function that looks at a Case
// and either stays silent or speaks; rules know nothing of each other, except that rank puts the cause that
// explains the others first. Advice that would not help is not given, and is named where people expect it.
package diagnose

import (
	"cmp"
	"slices"

	"github.com/plimsoll/plimsoll/internal/answer/finding"
	"github.com/plimsoll/plimsoll/internal/answer/report"
	"github.com/plimsoll/plimsoll/internal/evidence/callsite"
	"github.com/plimsoll/plimsoll/internal/memory/replay"
	"github.com/plimsoll/plimsoll/internal/memory/tape"
	"github.com/plimsoll/plimsoll/internal/memory/timeline"
	"github.com/plimsoll/plimsoll/internal/units"
	"github.com/plimsoll/plimsoll/snapshot"
)

// Case is everything known about one device of one run.
type Case struct {
	Input string
	*timeline.Timeline
	OOM   *Failure // the last request that failed, nil when none did
	Batch int      // samples of a batch; 0: not known

	Instant int                          // tape event the findings are about: the failure, else the peak
	InUse   units.Bytes                  // alive then
	Blocks  units.Bytes                  // the same in whole blocks, as the allocator model knows them; 0: not known
	By      [tape.Categories]units.Bytes // the same by category
	Groups  []timeline.Group             // the same by stack
	Growth  []timeline.Growth
	// EvalGrowth is what batches of evaluation leave behind.
	EvalGrowth []timeline.Growth
	Frag       *Fragmentation // what the allocator model says, nil when it was not asked
	Replay     *replay.Case   // the recording in the allocator model, nil where it cannot be played
	Coming     Coming         // what the step that failed would still have needed
	Rest       *Rest          // how it would have gone on, as an earlier step did; nil where none is like it
	// BlocksExact says that Peak.Allocated comes from the allocator model; otherwise it is a lower bound.
	BlocksExact bool
}

// Failure is a request that could not be served.
type Failure struct {
	Event, Trace int // in the tape and in the recorded history
	Request      units.Bytes
	Segment      units.Bytes // what PyTorch asked the driver for to serve it
	DeviceFree   units.Bytes
	Held         units.Bytes // reserved by PyTorch at that moment
	Limit        Limit
	Stack        snapshot.StackID
	Phase        callsite.Phase
	Eval         bool
	Step         int
}

// Fragmentation is what a replay of the run under other allocator settings says.
type Fragmentation struct {
	Valid    bool           // the model reproduces the recorded run
	Unused   units.Bytes    // held and not in use at the failure
	Setting  replay.Setting // the best setting found
	Conf     string         // its text
	Variable string         // the environment variable that this PyTorch reads
	Survives bool           // the failing request is served under Conf within the same limit
	Peak     units.Bytes    // reserved peak under Conf
	Pins     []report.Place
}

// Limit is how much this process could have had.
type Limit struct {
	Low, High units.Bytes // it lies between these
	Bytes     units.Bytes // best single number
	From      string      // message, driver or bounds
}

// NewCase gathers the facts that rules share.
func NewCase(input string, t *timeline.Timeline) *Case {
	c := &Case{Input: input, Timeline: t, Instant: t.Peak.Event}
	c.OOM = c.lastFailure()
	if c.OOM != nil {
		c.Instant = c.OOM.Event
	}
	c.By = t.ByCategory(c.Instant)
	for _, b := range c.By {
		c.InUse += b
	}
	c.Groups = t.ByStack(c.Instant)
	c.Growth = t.Growing(fewGrowthSteps)
	c.EvalGrowth = t.EvalGrowing(fewGrowthSteps)
	if c.OOM != nil {
		c.Coming, c.Rest = c.coming(), c.completes()
	}
	return c
}

// rule looks at a case and speaks or stays silent.
type rule func(*Case) (claim, bool)

// rules are listed where they are written; where two findings are equally sure, the order of the lists decides.
func rules() []rule {
	return slices.Concat(growthRules, loadRules, optimizerRules, allocatorRules, heldRules, parallelRules, activationRules, deadWeightRules)
}

// Run applies every rule, plays the run without each cause, and puts the causes in order.
func Run(c *Case) []report.Finding {
	found, _ := RunWithBlocks(c)
	return found
}

// RunWithBlocks also lists the allocations that each finding is about, where it is about some.
func RunWithBlocks(c *Case) ([]report.Finding, [][]int) {
	var claims []claim
	for _, r := range rules() {
		f, ok := r(c)
		if !ok || f.Bytes <= 0 && !weightless[f.ID] {
			continue
		}
		claims = append(claims, f)
	}
	claims = c.weigh(c.special(claims))
	if c.OOM != nil && !slices.ContainsFunc(claims, func(f claim) bool { return f.Severity == report.Error }) {
		claims = append([]claim{c.simplyFull()}, claims...)
	}
	found, blocks := make([]report.Finding, len(claims)), make([][]int, len(claims))
	for i := range claims {
		c.judge(&claims[i], claims)
		found[i], blocks[i] = claims[i].Finding, claims[i].without.never
		finding.Complete(&found[i], finding.Trainer)
		found[i].Input, found[i].Device = c.Input, c.Device
	}
	return found, blocks
}

// moreSpecial lists, for findings that say only that something is kept, those that say what. Where both are about the same memory the latter speaks.
var moreSpecial = map[string][]string{"growth": {"model-copies", "exception-holds-tensors"}, "eval-graph-kept": {"exception-holds-tensors"}, "eval-outputs-kept": {"exception-holds-tensors"}}

// special leaves out what a more special cause says about the same memory.
func (c *Case) special(claims []claim) []claim {
	return slices.DeleteFunc(slices.Clone(claims), func(f claim) bool {
		return slices.ContainsFunc(claims, func(other claim) bool {
			return slices.Contains(moreSpecial[f.ID], other.ID) && c.mostly(f.without.never, other.without.never) && c.severalSizes(other.without.never)
		})
	})
}

// severalSizes tells sets of different tensors, as a model or a frame holds, from many of one kind.
func (c *Case) severalSizes(ids []int) bool {
	sizes := map[units.Bytes]bool{}
	for _, id := range ids {
		if sizes[c.Size(id)] = true; len(sizes) >= 2 {
			return true
		}
	}
	return false
}

// weightless are findings that are not about bytes.
var weightless = map[string]bool{"alloc-conf-conflict": true, "unknown": true}

// Rank orders findings: errors first, then by confidence.
func Rank(found []report.Finding) {
	weight := map[string]int{report.Error: 2, report.Warning: 1, report.Remark: 0}
	slices.SortStableFunc(found, func(a, b report.Finding) int {
		return cmp.Or(cmp.Compare(weight[b.Severity], weight[a.Severity]), cmp.Compare(b.Confidence, a.Confidence))
	})
}

// severity is error for what made a request fail, and otherwise what the rule thinks of it.
func (c *Case) severity(otherwise string) string {
	if c.OOM != nil {
		return report.Error
	}
	return otherwise
}

// place is the user's line of a stack.
func (c *Case) place(stack snapshot.StackID) (report.Place, bool) {
	f, ok := c.Origins.UserFrame(stack)
	if !ok {
		return report.Place{}, false
	}
	return report.Place{File: f.File, Line: f.Line, Function: f.Function}, true
}

// places lists the user's lines of stacks, each once.
func (c *Case) places(stacks ...snapshot.StackID) []report.Place {
	var out []report.Place
	for _, s := range stacks {
		if p, ok := c.place(s); ok && !slices.Contains(out, p) {
			out = append(out, p)
		}
	}
	return out
}

// loopPlaces lists the lines that called the model, and after them the lines inside it: what is done with a result is decided
// where the call stands.
func (c *Case) loopPlaces(stacks ...snapshot.StackID) []report.Place {
	var out []report.Place
	for _, s := range stacks {
		frames := c.Origins.Stacks.Stack(s)
		for i := c.Origins.Caller(s); i >= 0 && i < len(frames); i++ {
			f := c.Origins.Stacks.Frames[frames[i]]
			p := report.Place{File: f.File, Line: f.Line, Function: f.Function}
			if !c.Origins.IsUser(frames[i]) {
				continue
			}
			if !slices.Contains(out, p) {
				out = append(out, p)
			}
			break
		}
	}
	for _, p := range c.places(stacks...) {
		if !slices.Contains(out, p) {
			out = append(out, p)
		}
	}
	return out
}

// andFailure is where the request failed and then the user's lines of stacks, each once.
func (c *Case) andFailure(stacks ...snapshot.StackID) []report.Place {
	out := c.failurePlace()
	for _, p := range c.places(stacks...) {
		if !slices.Contains(out, p) {
			out = append(out, p)
		}
	}
	return out
}

// failurePlace is where the failing request came from. Backward runs in a thread without Python frames: then it is
// the last line of the program's own thread before it.
func (c *Case) failurePlace() []report.Place {
	if c.OOM == nil {
		return nil
	}
	if places := c.places(c.OOM.Stack); len(places) > 0 {
		return places
	}
	if places := c.runningPlaces(); c.OOM.Stack == 0 && len(places) > 0 {
		return places
	}
	for i := c.OOM.Event; i >= 0; i-- {
		if e := &c.Tape.Events[i]; e.Kind == tape.Alloc && c.Stack[e.ID] != 0 {
			if places := c.places(c.Stack[e.ID]); len(places) > 0 {
				return places
			}
		}
	}
	return nil
}
