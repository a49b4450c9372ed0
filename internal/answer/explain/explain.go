// Package explain puts the evidence of a run together into one report.
//
// It takes snapshots and logs, read already and named and returns a report.Explain: what was asked for and what there was, what held the
// memory by category and line, the causes and the remedies, and for several ranks the one that stands out. It
// decides nothing itself: timelines measure, package diagnose finds causes, package replay checks them.
package explain

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/plimsoll/plimsoll/internal/answer/diagnose"
	"github.com/plimsoll/plimsoll/internal/answer/finding"
	"github.com/plimsoll/plimsoll/internal/answer/report"
	"github.com/plimsoll/plimsoll/internal/evidence/callsite"
	"github.com/plimsoll/plimsoll/internal/evidence/holders"
	"github.com/plimsoll/plimsoll/internal/evidence/oomtext"
	"github.com/plimsoll/plimsoll/internal/evidence/recording"
	"github.com/plimsoll/plimsoll/internal/memory/tape"
	"github.com/plimsoll/plimsoll/internal/memory/timeline"
	"github.com/plimsoll/plimsoll/internal/units"
	"github.com/plimsoll/plimsoll/snapshot"
)

// Evidence is one input: a snapshot or a text.
type Evidence struct {
	Name     string
	Snapshot *snapshot.Snapshot // nil for a text
	Holders  *holders.File      // who holds what is alive at the end of Snapshot; nil where the probe did not look
	Batch    int                // samples of a batch of training, as the probe saw them; 0: not known
	Length   int64              // bytes of a text
	Messages []oomtext.Message  // the out-of-memory messages in a text
	Hints    []oomtext.Hint     // and the warnings that bear on memory
	// Unreadable says why a file of a folder was skipped.
	Unreadable string
}

// Cases makes a case of every device in a snapshot.
func Cases(e Evidence) []*diagnose.Case {
	cases := Timelines(e)
	for _, c := range cases {
		askAllocator(c)
	}
	return cases
}

// Timelines makes the cases without asking the allocator model, which for a long history takes longer than all the rest.
func Timelines(e Evidence) []*diagnose.Case {
	origins := callsite.NewTable(&e.Snapshot.Stacks)
	var cases []*diagnose.Case
	for _, d := range recording.Devices(e.Snapshot) {
		t := timeline.New(recording.New(e.Snapshot, d), origins)
		if e.Holders != nil {
			t.Adopt(e.Holders)
		}
		c := diagnose.NewCase(e.Name, t)
		c.SetBatch(e.Batch)
		cases = append(cases, c)
	}
	return cases
}

// Build makes the report.
func Build(all []Evidence) *report.Explain {
	var cases []*diagnose.Case
	for _, e := range all {
		if e.Snapshot != nil {
			cases = append(cases, Timelines(e)...)
		}
	}
	return Conclude(all, cases)
}

// Conclude makes the report from cases that Timelines made of the evidence. It changes them.
func Conclude(all []Evidence, cases []*diagnose.Case) *report.Explain {
	for _, c := range cases {
		askAllocator(c)
	}
	r := &report.Explain{Schema: report.ExplainSchema, Inputs: []report.Input{}, Devices: []report.Device{}, Findings: []report.Finding{}}
	for _, e := range all {
		in := report.Input{Name: e.Name, Kind: "text"}
		switch {
		case e.Snapshot != nil:
			in.Kind, in.Warnings = "snapshot", e.Snapshot.Warnings
		case e.Unreadable != "":
			in.Kind, in.Warnings = "unreadable", []string{"skipped: " + e.Unreadable}
		}
		r.Inputs = append(r.Inputs, in)
	}
	texts := messages(r, all)
	failures := 0
	for _, c := range cases {
		if c.OOM != nil {
			failures++
		}
	}
	for _, c := range cases {
		applyLimit(c, texts, failures > 1)
		r.Devices = append(r.Devices, device(c))
		r.Notes = append(r.Notes, unknowns(c)...)
		if c.OOM == nil && failures > 0 {
			continue // the one that failed is explained
		}
		found, blocks := diagnose.RunWithBlocks(c)
		for i := range found {
			found[i].Holders = holding(c, blocks[i])
		}
		r.Findings = append(r.Findings, found...)
	}
	r.Findings = merge(ordered(r.Findings, textFindings(texts, cases)))
	believe(r, cases)
	r.Outlier = outlier(cases)
	return r
}

// believe lowers what findings of recordings claim to what was measured for them.
func believe(r *report.Explain, cases []*diagnose.Case) {
	recorded := map[string]bool{}
	for _, c := range cases {
		recorded[c.Input] = true
	}
	for i := range r.Findings {
		if f := &r.Findings[i]; recorded[f.Input] {
			f.Confidence = finding.Believed(f.ID, f.Confidence)
		}
	}
}

// ordered puts errors before warnings and those before notes, and otherwise keeps the order of causes. What only a message knows comes first where it
// is surer than the first cause of the recording, or holds more than it.
func ordered(recorded, texts []report.Finding) []report.Finding {
	diagnose.Rank(texts)
	for _, f := range texts {
		at := len(recorded)
		if len(recorded) > 0 && (f.Confidence > recorded[0].Confidence || f.Severity == report.Error && f.Confidence >= 0.7 && f.Bytes > recorded[0].Bytes && finding.Is(f.ID, finding.FromMessage)) {
			at = 0
		}
		recorded = slices.Insert(recorded, at, f)
	}
	weight := map[string]int{report.Error: 0, report.Warning: 1, report.Remark: 2}
	slices.SortStableFunc(recorded, func(a, b report.Finding) int { return cmp.Compare(weight[a.Severity], weight[b.Severity]) })
	return recorded
}

// device fills in what one case says.
func device(c *diagnose.Case) report.Device {
	d := report.Device{
		Input: c.Input, Device: c.Device, Events: c.Trace.Len(), Complete: c.Complete,
		End:      report.Level(c.End),
		OOM:      []report.OOM{},
		Steps:    report.Steps{Count: len(c.Steps), From: c.StepsFrom, AtEnd: c.StepLevels()},
		Pending:  c.PendingFree(),
		Private:  c.PrivatePools(),
		Settings: c.Snapshot.Settings.Conf,
	}
	d.Peak = report.Peak{Level: report.Level(c.Peak.Level), Event: -1, Phase: "other", Step: c.StepOf(c.Peak.Event), AllocatedExact: c.BlocksExact}
	if e := c.Peak.Event; e >= 0 {
		d.Peak.Event = int(c.Event[e])
		d.Peak.Phase = c.Phase[c.Tape.Events[e].ID].String()
	}
	d.AtPeak = atPeak(c)
	d.Accounts = accounts(c)
	d.Holders, d.Walk = Holders(c)
	all := c.Failures()
	for i, f := range all {
		if i == len(all)-1 {
			f = *c.OOM // with the limit a message may have told
		}
		d.OOM = append(d.OOM, failure(c, f))
	}
	for _, g := range c.Growth {
		d.Steps.PerStep += g.PerStep
	}
	return d
}

func failure(c *diagnose.Case, f diagnose.Failure) report.OOM {
	o := report.OOM{
		Event: f.Trace, Requested: f.Request, Segment: f.Segment, DeviceFree: f.DeviceFree,
		Capacity: f.Limit.Bytes, CapacityFrom: f.Limit.From, CapacityLow: f.Limit.Low, CapacityHigh: f.Limit.High,
		Held: f.Held, InUse: c.RequestedAt(f.Event), Phase: f.Phase.String(), Step: f.Step, Frames: frames(c, f.Stack),
	}
	if f.Eval && f.Phase == callsite.Forward {
		o.Phase = "eval"
	}
	if p := place(c, f.Stack); p != nil {
		o.Where = p
	}
	return o
}

// topLimit is how many lines a report names; the rest is in the categories.
const topLimit = 20

func atPeak(c *diagnose.Case) report.AtPeak {
	a := report.AtPeak{ByCategory: map[string]units.Bytes{}, Certain: c.Certain, Top: []report.Top{}}
	for i, b := range c.ByCategory(c.Peak.Event) {
		a.ByCategory[tape.Category(i).String()] = b
	}
	for _, g := range c.ByStack(c.Peak.Event) {
		if len(a.Top) == topLimit || g.Bytes == 0 {
			break
		}
		a.Top = append(a.Top, report.Top{
			Bytes: g.Bytes, Count: g.Count, Category: g.Category.String(), Frames: frames(c, g.Stack), Where: place(c, g.Stack),
		})
	}
	return a
}

// frames describes a stack: the user's lines and what the innermost of them called, without the plumbing in between.
func frames(c *diagnose.Case, stack snapshot.StackID) []string {
	out := []string{}
	for _, id := range c.Origins.Readable(stack) {
		out = append(out, callsite.Describe(c.Origins.Stacks.Frames[id]))
	}
	return out
}

func place(c *diagnose.Case, stack snapshot.StackID) *report.Place {
	f, ok := c.Origins.UserFrame(stack)
	if !ok {
		return nil
	}
	return &report.Place{File: f.File, Line: f.Line, Function: f.Function}
}

// unknowns says what this evidence cannot tell.
func unknowns(c *diagnose.Case) []string {
	var out []string
	if c.Trace.Len() == 0 {
		out = append(out, "The snapshot has no history, only the state at the end: call torch.cuda.memory._record_memory_history() at the start of the script to see the peak.")
	} else if !c.Complete {
		out = append(out, "The history does not reach back to the start: what was allocated before it has no stack, and an earlier peak cannot be seen.")
	}
	if c.Trace.Len() > 0 && !c.Certain {
		out = append(out, "No stacks were recorded, so categories are inferred from lifetimes and no line can be named: record with context=\"all\".")
	}
	if c.Contradictions > 0 {
		out = append(out, "Some events contradict the history (dumped while another thread allocated, or with skip_actions): sums may be off by their sizes.")
	}
	if c.Peak.Requested > c.Peak.Reserved && slices.Contains(c.Trace.Action, snapshot.ActionSegmentAlloc) {
		out = append(out, fmt.Sprintf("The history contradicts itself: %s were in use, and only %s reserved by PyTorch. Its addresses or sizes cannot be right, so do not rely on these numbers.", c.Peak.Requested, c.Peak.Reserved))
	}
	return out
}

// merge folds findings that several ranks share into one, so that eight ranks do not say the same eight times.
func merge(all []report.Finding) []report.Finding {
	type key struct {
		id    string
		where report.Place
	}
	index := map[key]int{}
	out := []report.Finding{}
	for _, f := range all {
		k := key{id: f.ID}
		if len(f.Where) > 0 && !finding.Is(f.ID, finding.FromMessage) { // two logs of one failure say the same
			k.where = f.Where[0]
		}
		if i, ok := index[k]; ok && out[i].Input != f.Input {
			out[i].Also = append(out[i].Also, f.Input)
			continue
		}
		index[k] = len(out)
		out = append(out, f)
	}
	return out
}

// outlier names the input whose peak stands out among several: at least a tenth above the median of the others, or
// the only one that failed.
func outlier(cases []*diagnose.Case) string {
	if len(cases) < 2 {
		return ""
	}
	failed := slices.DeleteFunc(slices.Clone(cases), func(c *diagnose.Case) bool { return c.OOM == nil })
	if len(failed) == 1 {
		return failed[0].Input
	}
	sorted := slices.Clone(cases)
	slices.SortFunc(sorted, func(a, b *diagnose.Case) int { return cmp.Compare(b.Peak.Requested, a.Peak.Requested) })
	median := sorted[1+(len(sorted)-1)/2].Peak.Requested
	if len(sorted) == 2 {
		median = sorted[1].Peak.Requested
	}
	if 10*sorted[0].Peak.Requested >= 11*median {
		return sorted[0].Input
	}
	return ""
}
