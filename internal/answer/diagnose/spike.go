package diagnose

import (
	"fmt"
	"slices"
	"strings"

	"github.com/plimsoll/plimsoll/internal/answer/report"
	"github.com/plimsoll/plimsoll/internal/evidence/callsite"
	"github.com/plimsoll/plimsoll/internal/memory/tape"
	"github.com/plimsoll/plimsoll/internal/units"
	"github.com/plimsoll/plimsoll/snapshot"
)

// spikes is how many times as large as before a line's request is where the input is taken to be larger.
const spikes = 1.25

// inputSpike: this batch is larger than any before it.
func inputSpike(c *Case) (claim, bool) {
	if c.OOM == nil || c.OOM.Phase != callsite.Forward && c.OOM.Phase != callsite.Backward {
		return claim{}, false
	}
	ratio, earlier, now, stack := c.spike()
	if ratio < spikes {
		return claim{}, false
	}
	if _, trying := exceptionHolds(c); trying {
		return claim{}, false // larger on purpose
	}
	act := c.since(c.lastQuiet(), tape.Activations, tape.Inputs)
	usual := c.batchScaled(1 / ratio)
	usual.usual = true
	return claim{without: usual, tries: []change{usual, {}, {}}, Finding: report.Finding{
		ID: "input-spike", Severity: report.Error, Confidence: 0.85, Bytes: act, Where: uniquePlaces(c.places(stack, c.OOM.Stack), c.runningPlaces()),
		Title: fmt.Sprintf("this batch is larger than any before it: tensors up to %.1f times as large", ratio),
		Evidence: []string{
			fmt.Sprintf("the same line requested at most %s in earlier steps and %s in this one", earlier, now),
			fmt.Sprintf("activations follow: %s so far in this step", act),
		},
		Remedies: []report.Remedy{
			{Action: "cap or bucket the length of samples (truncate, sort by length, batch by tokens)", Saves: act - units.Bytes(float64(act)/ratio), CheckedBy: report.ByArithmetic},
			{Action: "try the longest batch first: it fails in the first minute instead of the tenth hour", CheckedBy: report.ByRule},
			{Action: halve, Saves: act / 2, CheckedBy: report.ByArithmetic},
		},
	}}, true
}

// spike compares what each line of the program asked for in the failing step with the most it ever asked for before.
func (c *Case) spike() (ratio float64, earlier, now units.Bytes, stack snapshot.StackID) {
	from := c.lastQuiet()
	before, since := map[snapshot.StackID]units.Bytes{}, map[snapshot.StackID]units.Bytes{}
	for i := range c.OOM.Event {
		e := &c.Tape.Events[i]
		if e.Kind != tape.Alloc || c.Stack[e.ID] == 0 {
			continue
		}
		if p := c.phaseOf(e.ID); p != callsite.Forward && p != callsite.User && p != callsite.Data {
			continue
		}
		most := before
		if i > from {
			most = since
		}
		most[c.Stack[e.ID]] = max(most[c.Stack[e.ID]], e.Size)
	}
	if len(since) == 0 {
		return c.spikeByOrder(from)
	}
	for s, size := range since {
		old := before[s]
		if old < 64*units.KiB {
			continue
		}
		if r := float64(size) / float64(old); r > ratio || r == ratio && s < stack {
			ratio, earlier, now, stack = r, old, size, s
		}
	}
	return ratio, earlier, now, stack
}

// spikeByOrder compares the failing step with the one before it request by request, where its stacks were not recorded: the same program asks in the same order. Most of the large requests must have
// grown, each at least as much as the least that counts; the ratio is the middle one.
func (c *Case) spikeByOrder(from int) (ratio float64, earlier, now units.Bytes, stack snapshot.StackID) {
	const few = 3
	failing := c.requestsIn(from, c.OOM.Event)
	step := c.StepOf(c.OOM.Event)
	if c.OOM.Eval || len(failing) < few || step < 2 || step-1 >= len(c.Steps) { // batches of evaluation are no larger steps of training
		return 0, 0, 0, 0
	}
	last := c.requestsIn(c.Steps[step-2], c.Steps[step-1])
	var ratios []float64
	for i := range min(len(failing), len(last)) {
		if last[i] >= 64*units.KiB {
			ratios = append(ratios, float64(failing[i])/float64(last[i]))
			if failing[i] > now {
				earlier, now = last[i], failing[i]
			}
		}
	}
	if len(ratios) < few {
		return 0, 0, 0, 0
	}
	slices.Sort(ratios)
	if ratios[len(ratios)/4] < spikes {
		return 0, 0, 0, 0
	}
	return ratios[len(ratios)/2], earlier, now, 0
}

// requestsIn lists the sizes of what a forward pass, or the program around it, asked for between two events, in order. Requests of a few bytes are left out: they come and go with what is logged.
func (c *Case) requestsIn(from, to int) []units.Bytes {
	var out []units.Bytes
	for i := from + 1; i < to; i++ {
		e := &c.Tape.Events[i]
		if e.Kind != tape.Alloc || e.Size < 4*units.KiB {
			continue
		}
		if p := c.phaseOf(e.ID); p == callsite.Forward || p == callsite.User || p == callsite.Data {
			out = append(out, e.Size)
		}
	}
	return out
}

// lastQuiet is the event where the failing step began.
func (c *Case) lastQuiet() int { return c.quietBefore(*c.OOM) }

// quietBefore is the event where the step of a failure began: the last step's end, or the last moment after a backward.
func (c *Case) quietBefore(f Failure) int {
	if n := f.Step; n > 0 && n <= len(c.Steps) {
		return c.Steps[n-1]
	}
	sawForward := false
	for i := f.Event - 1; i >= 0; i-- {
		e := &c.Tape.Events[i]
		if e.Kind != tape.Alloc {
			continue
		}
		switch c.phaseOf(e.ID) {
		case callsite.Forward:
			sawForward = true
		case callsite.Backward, callsite.Optimizer:
			if sawForward {
				return i
			}
		}
	}
	return -1
}

// exceptionHolds: the program tries sizes and catches the error. The traceback of a caught exception keeps every
// frame of the failed attempt, and so its tensors, alive until the except block is left. Several failures show it: what the
// first attempt made is still there at the last. Seen from the first failure only the pattern tells: the last call of a
// line is a multiple of the one before, and no optimizer has stepped: a finder of batch sizes does not train.
func exceptionHolds(c *Case) (claim, bool) {
	if f, ok := retriedWhileHeld(c); ok {
		return f, true
	}
	if c.OOM == nil || c.Stepped() || c.By[tape.Optimizer] > 0 {
		return claim{}, false
	}
	ratio, earlier, now, stack := c.spike()
	whole := float64(int(ratio+0.5)) == ratio && int(ratio)&(int(ratio)-1) == 0
	if ratio < 2 || !whole {
		return claim{}, false
	}
	blocks, held := c.sinceBlocks(c.lastQuiet())
	undo := change{never: blocks, request: true}
	return claim{without: undo, tries: []change{undo, undo}, Finding: report.Finding{
		ID: "exception-holds-tensors", Severity: report.Error, Confidence: 0.86, Bytes: held, Where: c.places(stack, c.OOM.Stack),
		Title: "a caught out-of-memory error keeps the failed attempt alive",
		Evidence: []string{
			fmt.Sprintf("the program is trying sizes: the same line requested %s, then exactly %d times as much (%s)", earlier, int(ratio), now),
			fmt.Sprintf("the failed attempt holds %s, and its traceback keeps them alive as long as the except block runs: a retry inside it fails too, however small", held),
		},
		Remedies: []report.Remedy{
			{Action: "only set a flag inside except, leave the block, then retry (and call gc.collect())", Saves: held, CheckedBy: report.ByArithmetic},
			{Action: "try each size in a fresh process", Saves: held, CheckedBy: report.ByRule},
		},
	}}, true
}

// attempts are the failures that the program itself saw. cuDNN asks for a workspace for one plan after the other and goes on with the first that fits:
// such failures are its own (https://github.com/pytorch/pytorch/blob/v2.11.0/aten/src/ATen/native/cudnn/Conv_v8.cpp, try_plans).
func (c *Case) attempts() []Failure {
	var out []Failure
	all := c.Failures()
	for i, f := range all {
		if i == len(all)-1 {
			return append(out, f)
		}
		if !c.convolves(f) {
			out = append(out, f)
		}
	}
	return out
}

// convolves tells a request of a convolution: by its function or, for those whose function is PyTorch's own C++, its file; or from the engine's thread, where no function shows.
func (c *Case) convolves(f Failure) bool {
	if f.Stack == 0 || c.innermost(f.Stack, convolutions...) {
		return true
	}
	frames := c.Origins.Stacks.Stack(f.Stack)
	return len(frames) > 0 && strings.HasSuffix(c.Origins.Stacks.Frames[frames[0]].File, "/nn/modules/conv.py")
}

var convolutions = []string{"_conv_forward", "conv1d", "conv2d", "conv3d", "conv_transpose", "run_conv_plan"}

// userLines are the user's lines of a stack, innermost first: of a retry, the line that failed and the one that tries again.
func (c *Case) userLines(stack snapshot.StackID) []report.Place {
	const few = 4
	var out []report.Place
	for _, id := range c.Origins.Stacks.Stack(stack) {
		f := &c.Origins.Stacks.Frames[id]
		p := report.Place{File: f.File, Line: f.Line, Function: f.Function}
		if c.Origins.IsUser(id) && !slices.Contains(out, p) && len(out) < few {
			out = append(out, p)
		}
	}
	return out
}

// retriedWhileHeld: a request failed, the program went on, and at the next failure the tensors of the first attempt are still alive.
func retriedWhileHeld(c *Case) (claim, bool) {
	all := c.attempts()
	if len(all) < 2 {
		return claim{}, false
	}
	first, last := all[0], all[len(all)-1]
	from := c.quietBefore(first)
	var held units.Bytes
	var blocks []int
	for id := len(c.Tape.Initial); id < len(c.Died); id++ {
		temporary := c.Category[id] == tape.Activations || c.Category[id] == tape.Inputs
		if born := int(c.Born[id]); temporary && born > from && born < first.Event && c.Alive(id, last.Event) {
			held += c.Size(id)
			blocks = append(blocks, id)
		}
	}
	if 4*held < c.InUse {
		return claim{}, false
	}
	undo := change{never: blocks}
	return claim{without: undo, tries: []change{undo, undo}, Finding: report.Finding{
		ID: "exception-holds-tensors", Severity: report.Error, Confidence: 0.97, Bytes: held, Where: uniquePlaces(c.places(first.Stack), c.userLines(last.Stack)),
		Title: "the caught error keeps the failed attempt alive, so every retry fails",
		Evidence: []string{
			fmt.Sprintf("%d requests failed, from %s down to %s, while %s that the first attempt had made stayed alive", len(all), first.Request, last.Request, held),
			"an exception's traceback keeps the frames it passed through alive, and their tensors with them, until the except block ends",
		},
		Remedies: []report.Remedy{
			{Action: "only set a flag inside except, leave the block, then retry (and call gc.collect())", Saves: held, CheckedBy: report.ByArithmetic},
			{Action: "try each size in a fresh process", Saves: held, CheckedBy: report.ByRule},
		},
	}}, true
}

// uniquePlaces joins lists of lines, each once.
func uniquePlaces(lists ...[]report.Place) []report.Place {
	var out []report.Place
	for _, p := range slices.Concat(lists...) {
		if !slices.Contains(out, p) {
			out = append(out, p)
		}
	}
	return out
}
