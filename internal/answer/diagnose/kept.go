package diagnose

import (
	"cmp"
	"fmt"
	"slices"
	"sort"
	"strings"

	"github.com/plimsoll/plimsoll/internal/answer/report"
	"github.com/plimsoll/plimsoll/internal/evidence/callsite"
	"github.com/plimsoll/plimsoll/internal/evidence/holders"
	"github.com/plimsoll/plimsoll/internal/memory/tape"
	"github.com/plimsoll/plimsoll/internal/memory/timeline"
	"github.com/plimsoll/plimsoll/internal/units"
	"github.com/plimsoll/plimsoll/snapshot"
)

// kept is memory that one variable of the program keeps: tensors it reaches, and what graphs that hang from it saved for backward.
type kept struct {
	name   string
	in     *holders.Place
	ids    []int
	bytes  units.Bytes
	graph  units.Bytes // of bytes, saved for backward
	rounds int         // how many steps, or else calls of the model, lie between its births
	listed int         // tensors that are entries of a container
}

// keptByName groups what variables of the program keep by the variable, largest first; nil where the probe did not look at the failure.
func (c *Case) keptByName() []kept {
	if c.OOM == nil || c.running() == nil {
		return nil
	}
	index := map[string]int{}
	var out []kept
	for _, h := range c.ByHolder() {
		role := h.Holder.Role
		if role != holders.Saved && role != holders.Variable || h.Holder.Name.Name == "" {
			continue
		}
		k := root(h.Holder.Name)
		i, ok := index[k]
		if !ok {
			i = len(out)
			index[k] = i
			out = append(out, kept{name: h.Holder.Name.Name, in: h.Holder.In})
		}
		g := &out[i]
		g.ids = append(g.ids, h.IDs...)
		g.bytes += h.Bytes
		if strings.Contains(h.Holder.Name.Name, "[*]") {
			g.listed += len(h.IDs)
		}
		if role == holders.Saved {
			g.graph += h.Bytes
		}
	}
	for i := range out {
		slices.Sort(out[i].ids)
		out[i].rounds = c.roundsOf(out[i].ids)
	}
	slices.SortStableFunc(out, func(a, b kept) int { return cmp.Compare(b.bytes, a.bytes) })
	return out
}

// root is the container a name begins with, and where it is bound: metric.preds of metric.preds[*][0].
func root(n holders.Name) string {
	name, _, _ := strings.Cut(n.Name, "[")
	if n.In != nil {
		name += " in " + n.In.String()
	}
	return name
}

// roundsOf counts the rounds of the program from which something is among some allocations: steps, or else the rounds of a loop that never trains. Where neither is
// known, what the user's own lines made between calls of the model counts, since one pass through a model makes many tensors.
func (c *Case) roundsOf(ids []int) int {
	ends := c.Steps
	if len(ends) == 0 {
		ends = c.Batches
	}
	if len(ends) > 0 {
		rounds := map[int]bool{}
		for _, id := range ids {
			if id >= len(c.Tape.Initial) {
				rounds[sort.SearchInts(ends, int(c.Born[id]))] = true
			}
		}
		return len(rounds)
	}
	wanted := make(map[int]bool, len(ids))
	for _, id := range ids {
		wanted[id] = c.Phase[id] == callsite.User
	}
	rounds, called := 0, true
	for i := range c.Tape.Events {
		e := &c.Tape.Events[i]
		if e.Kind != tape.Alloc {
			continue
		}
		switch {
		case wanted[int(e.ID)] && called:
			rounds, called = rounds+1, false
		case c.Phase[e.ID] == callsite.Forward:
			called = true
		}
	}
	return rounds
}

// raisedHere tells whether exceptions keep most of some allocations.
func (c *Case) raisedHere(ids []int) bool {
	f, ok := exceptionFrames(c)
	return ok && c.mostly(ids, f.without.never)
}

// mostly tells whether at least half of the bytes of some allocations are among others.
func (c *Case) mostly(ids, among []int) bool {
	in := make(map[int]bool, len(among))
	for _, id := range among {
		in[id] = true
	}
	var sum, all units.Bytes
	for _, id := range ids {
		all += c.Size(id)
		if in[id] {
			sum += c.Size(id)
		}
	}
	return all > 0 && 2*sum >= all
}

// endedCalls is memory of calls of one function that have ended, while something keeps their frames.
type endedCalls struct {
	in    *holders.Place // the first line seen
	name  string         // a variable of it
	ids   []int
	bytes units.Bytes
	told  bool // the walk itself saw the traceback
}

// keptFrames finds functions of which several frames are alive though at most one runs, largest first. The walk names a frame that a traceback keeps; else one local variable that
// holds several tensors under its bare name tells: a name is bound once in a frame.
func (c *Case) keptFrames() []endedCalls {
	if c.OOM == nil || c.running() == nil {
		return nil
	}
	all := c.ByHolder()
	index := map[string]int{}
	var out []endedCalls
	for _, h := range all {
		if frame, told := c.severalFrames(&h); frame {
			k := functionOf(h.Holder.In)
			if _, seen := index[k]; !seen {
				index[k] = len(out)
				out = append(out, endedCalls{in: h.Holder.In, name: h.Holder.Name.Name, told: told})
			}
		}
	}
	for _, h := range all {
		i, ok := index[functionOf(h.Holder.In)]
		if role := h.Holder.Role; !ok || role != holders.Saved && role != holders.Variable && role != holders.Input {
			continue
		}
		out[i].ids = append(out[i].ids, h.IDs...)
		out[i].bytes += h.Bytes
	}
	slices.SortStableFunc(out, func(a, b endedCalls) int { return cmp.Compare(b.bytes, a.bytes) })
	return out
}

// severalFrames tells a variable of which several frames of its function hold a tensor, and whether the walk saw a traceback hold them.
func (c *Case) severalFrames(h *timeline.Held) (several, told bool) {
	name, in := h.Holder.Name.Name, h.Holder.In
	if in == nil || h.Holder.Role != holders.Variable && h.Holder.Role != holders.Input && h.Holder.Role != holders.Saved {
		return false, false
	}
	if h.Holder.Frame != "" {
		return true, true
	}
	if h.Holder.Role == holders.Saved || len(h.IDs) < 2 || strings.ContainsAny(name, "[.(") || in.Function == "<module>" || !callsite.IsUserFile(in.File) {
		return false, false
	}
	runs := 0
	for _, p := range c.running() {
		if p.File == in.File && (p.Function == in.Function || strings.HasSuffix(in.Function, "."+p.Function)) {
			runs++
		}
	}
	return runs <= 1 && c.madeIn(h.IDs, in), false
}

// madeIn tells whether allocations were asked for in a function, or below it: then a variable of it is a local one, and not one that a closure carries.
func (c *Case) madeIn(ids []int, in *holders.Place) bool {
	for _, id := range ids {
		inside := slices.ContainsFunc(c.Origins.Stacks.Stack(c.Stack[id]), func(f snapshot.FrameID) bool {
			frame := &c.Origins.Stacks.Frames[f]
			return frame.File == in.File && (frame.Function == in.Function || strings.HasSuffix(in.Function, "."+frame.Function))
		})
		if !inside {
			return false
		}
	}
	return true
}

// functionOf names the function a variable belongs to.
func functionOf(in *holders.Place) string {
	if in == nil {
		return ""
	}
	return in.File + " " + in.Function
}

// exceptionFrames: tracebacks of exceptions that something keeps hold frames of functions that have ended, and those their tensors.
func exceptionFrames(c *Case) (claim, bool) {
	kept := c.keptFrames()
	if len(kept) == 0 || 5*kept[0].bytes < c.InUse {
		return claim{}, false
	}
	k := kept[0]
	undo := change{never: k.ids}
	f := claim{without: undo, Finding: report.Finding{
		ID: "exception-holds-tensors", Severity: report.Error, Confidence: 0.93, Bytes: k.bytes, Where: uniquePlaces(placesOf(k.in), c.runningPlaces()),
		Title: fmt.Sprintf("stored exceptions keep %s alive: %s of %s", k.bytes, k.name, k.in.Function),
		Evidence: []string{
			fmt.Sprintf("%s in %s belong to calls of %s that have ended: only tracebacks of exceptions still refer to them", k.bytes, tensors(len(k.ids)), k.in.Function),
			"an exception's traceback keeps the frames it passed through alive, and their tensors with them, as long as the exception is stored",
		},
	}}
	if !k.told {
		f.Confidence = 0.85
		f.Evidence[0] = fmt.Sprintf("%s in %s belong to several calls of %s, of which at most one is still running: something keeps the frames of the others, as the traceback of an exception that is stored does", k.bytes, tensors(len(k.ids)), k.in.Function)
	}
	f.remedy(saving(k.bytes, "keep the text, not the exception: errors.append(repr(e)); or traceback.clear_frames(e.__traceback__) before it is stored; retry after the except block, not inside it"), undo)
	return f, true
}

func placesOf(in *holders.Place) []report.Place {
	if in == nil || in.Line == 0 {
		return nil
	}
	return []report.Place{{File: in.File, Line: in.Line, Function: in.Function}}
}

// heldByName: what one variable of the program keeps from round to round takes a good part of the card. Lines and steps say more where they are known, so that it speaks
// only about memory that no other rule has told.
func heldByName(c *Case) (claim, bool) {
	for _, k := range c.keptByName() {
		if 4*k.bytes < c.InUse {
			break
		}
		eval, generates := c.runsEval()
		collects := c.OOM.Eval && !generates && k.listed >= minGrowthSteps // rounds of evaluation are not steps: what it collects is told by the list
		if (k.rounds >= minGrowthSteps || collects) && !c.raisedHere(k.ids) && !c.alreadyTold(k.ids, growth, evalKept, joined, evalGraph, modelCopies, datasetOnGPU, resumeDoubles, checkpointSave) {
			return c.named(k), true
		}
		if (eval || generates) && 2*k.graph >= k.bytes && !c.raisedHere(k.ids) && !c.alreadyTold(k.ids, growth, evalKept, evalGraph) {
			return c.named(k), true
		}
	}
	return claim{}, false
}

// alreadyTold tells whether one of some rules is about at least half of these bytes.
func (c *Case) alreadyTold(ids []int, by ...rule) bool {
	for _, r := range by {
		f, ok := r(c)
		if !ok {
			continue
		}
		if c.mostly(ids, f.without.never) {
			return true
		}
	}
	return false
}

// named words the finding: a graph in evaluation, in generation or over several rounds, or results that are collected.
func (c *Case) named(k kept) claim {
	eval, generates := c.runsEval()
	eval = eval || c.OOM.Eval
	graph := 2*k.graph >= k.bytes
	undo := change{never: k.ids}
	f := claim{without: undo, Finding: report.Finding{ID: "growth", Severity: report.Error, Confidence: 0.88, Bytes: k.bytes, Where: append(c.runningPlaces(), placesOf(k.in)...)}}
	f.Where = slices.Compact(f.Where)
	switch {
	case graph && generates:
		f.ID = "graph-kept-in-generation"
		f.Title = fmt.Sprintf("generation keeps its autograd graph: %s are kept alive by %s", k.bytes, k.name)
	case graph && eval:
		f.ID = "eval-graph-kept"
		f.Title = fmt.Sprintf("evaluation keeps autograd graphs: %s are kept alive by %s", k.bytes, k.name)
	case eval:
		f.ID = "eval-outputs-kept"
		f.Title = fmt.Sprintf("evaluation collects %s in %s on the card", k.bytes, k.name)
	default:
		f.Title = fmt.Sprintf("%s of %d iterations of the program is kept by %s", k.bytes, k.rounds, k.name)
	}
	f.Evidence = []string{fmt.Sprintf("%s in %s are held by the variable %s", k.bytes, tensors(len(k.ids)), k.name)}
	if graph {
		f.Evidence = append(f.Evidence, "they were saved for a backward pass, and live as long as the variable refers to their graph")
		f.remedy(saving(k.bytes, "torch.inference_mode() where nothing is trained; .item() or .detach() where a number or a result is kept"), undo)
	} else {
		f.remedy(saving(k.bytes, "keep results on the CPU: out.detach().cpu()"), undo)
	}
	return f
}

// unreachable: no name leads to a good part of the memory, and no line that runs made it: objects that refer to each other and wait for Python's garbage collector.
func unreachable(c *Case) (claim, bool) {
	if c.OOM == nil || c.running() == nil || !c.Holders.File.Walk.Complete {
		return claim{}, false
	}
	for _, h := range c.ByHolder() {
		nobody := h.Holder.Role == holders.Temporary && h.Holder.In == nil && h.Holder.Name.Name == "" || h.Holder.Role == ""
		if !nobody || 3*h.Bytes < c.InUse || c.roundsOf(h.IDs) < minGrowthSteps {
			continue
		}
		undo := change{never: h.IDs}
		f := claim{without: undo, Finding: report.Finding{
			ID: "growth", Severity: report.Error, Confidence: 0.85, Bytes: h.Bytes, Where: c.linesOf(h.IDs),
			Title: fmt.Sprintf("%s waits for Python's garbage collector: no variable refers to it", h.Bytes),
			Evidence: []string{
				fmt.Sprintf("%s made in %d iterations of the program is alive, and no variable leads to it: objects that refer to each other keep it", tensors(len(h.IDs)), c.roundsOf(h.IDs)),
				"reference cycles are freed only when the collector runs: gc.disable(), gc.freeze() or a high gc.set_threshold() delay that, and a full GPU does not trigger it",
			},
		}}
		f.remedy(saving(h.Bytes, "break the cycle (drop the reference back, or hold it with weakref.ref), or call gc.collect() every few steps"), undo)
		return f, true
	}
	return claim{}, false
}

// linesOf lists the user's lines that made some allocations.
func (c *Case) linesOf(ids []int) []report.Place {
	var out []report.Place
	for _, id := range ids {
		if c.Stack[id] == 0 {
			continue
		}
		for _, p := range c.loopPlaces(c.Stack[id]) {
			if !slices.Contains(out, p) {
				out = append(out, p)
			}
		}
		if len(out) >= 4 {
			break
		}
	}
	return out
}
