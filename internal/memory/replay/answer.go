package replay

import (
	"slices"

	"github.com/plimsoll/plimsoll/internal/answer/report"
	"github.com/plimsoll/plimsoll/internal/evidence/callsite"
	"github.com/plimsoll/plimsoll/internal/memory/tape"
	"github.com/plimsoll/plimsoll/internal/units"
	"github.com/plimsoll/plimsoll/snapshot"
)

// Answer compares the settings of a question and puts everything into the form that is shown.
func (c *Case) Answer(q Question) report.Replay {
	if !q.Torch.Said() {
		q.Torch = c.Torch
	}
	rows := c.Compare(q)
	out := report.Replay{
		Schema: report.ReplaySchema, Device: c.Recording.Device, Torch: c.Torch.String(), TorchIs: "fit",
		Fidelity: c.fidelity(), InUse: c.InUse, Settings: []report.ReplaySetting{}, Warnings: append([]string{}, c.Warnings...),
	}
	if c.TorchKnown {
		out.TorchIs = "file"
	}
	c.recordedFacts(&out)
	c.capacity(&out, q)
	for i := range rows {
		out.Settings = append(out.Settings, c.setting(&rows[i], q))
	}
	out.Helps = len(rows) > 0 && !rows[0].Recorded && c.beaten(&rows[0], rows, q)
	if out.Helps {
		out.Environment = out.Settings[0].Environment
	}
	out.Fragmentation = c.fragmented()
	out.Warnings = append(out.Warnings, c.doubts()...)
	return out
}

// beaten tells whether a row is better than the recorded settings: it runs where they do not, or holds at least a tenth less.
func (c *Case) beaten(best *Row, rows []Row, q Question) bool {
	if best.Failure() != nil {
		return false
	}
	for i := range rows {
		if r := &rows[i]; r.Recorded {
			return r.Failure() != nil || 10*best.Peak.Reserved < 9*r.Peak.Reserved
		}
	}
	held := c.Fidelity.ReservedPeakRecorded
	return c.Fidelity.OOMs > 0 || q.Capacity > 0 && held > q.Capacity || 10*best.Peak.Reserved < 9*held
}

func (c *Case) fidelity() report.ReplayFidelity {
	f := c.Fidelity
	out := report.ReplayFidelity{
		Events: f.Events, Allocations: f.Allocs, AddressMatches: f.AddressMatches, Divergence: f.Divergence,
		SegmentEvents: f.SegmentEvents, SegmentMatches: f.SegmentMatches,
		Recorded: f.ReservedPeakRecorded, Replayed: f.ReservedPeakReplayed, Exact: f.Exact(),
	}
	if f.FirstDivergence >= 0 {
		out.FirstDivergence = &f.FirstDivergence
	}
	return out
}

func (c *Case) recordedFacts(out *report.Replay) {
	r := &out.Recorded
	r.Conf, r.Complete, r.EmptyCaches, r.OOMs = confName(c.ConfText), c.Recording.Complete, c.EmptyCaches, c.Fidelity.OOMs
	r.Limit, r.LimitLow, r.LimitHigh = c.Limit.Bytes(), c.Limit.AtLeast, c.Limit.Below
	r.Partial = c.diedThere()
	switch {
	case c.Limit.Given:
		r.LimitIs = "flag"
	case c.Limit.Cap > 0:
		r.LimitIs = "cap"
	case c.Limit.Device > 0:
		r.LimitIs = "device"
	default:
		r.LimitIs = "none"
	}
}

// diedThere tells that the history ends with a failure: hardly anything was asked for after the last one.
func (c *Case) diedThere() bool {
	before, after, failed := 0, 0, false
	for i := range c.tape.Events {
		switch c.tape.Events[i].Kind {
		case tape.OOM:
			before, after, failed = before+after, 0, true
		case tape.Alloc:
			after++
		}
	}
	return failed && 10*after <= before
}

func (c *Case) capacity(out *report.Replay, q Question) {
	switch {
	case q.Capacity > 0:
		out.Capacity, out.CapacityIs = q.Capacity, "flag"
	case c.Limit.Known():
		out.Capacity, out.CapacityIs = c.Limit.Bytes(), "recorded"
	default:
		out.CapacityIs = "none"
	}
}

func (c *Case) setting(r *Row, q Question) report.ReplaySetting {
	out := report.ReplaySetting{
		Conf: confName(r.Setting.Text), Recorded: r.Recorded,
		Peak:     report.Level{Requested: r.Peak.Requested, Allocated: r.Peak.Allocated, Reserved: r.Peak.Reserved},
		Segments: r.Peak.Segments, Retries: r.Retries, Smallest: r.Smallest, ReservedOther: r.ReservedOther,
		Warnings: append([]string{}, r.Setting.Conf.Clashes(q.Torch, false)...),
	}
	if r.Setting.Text != "" {
		out.Environment = q.Torch.EnvVar() + "=" + quoted(r.Setting.Text)
	}
	if r.Limited != nil {
		p := r.Limited.Peak
		out.AtCapacity = &report.Level{Requested: p.Requested, Allocated: p.Allocated, Reserved: p.Reserved}
	}
	if oom := r.Failure(); oom != nil {
		out.OOM = &report.ReplayOOM{
			Event: oom.Event, Requested: oom.Request,
			Allocated: oom.Failure.Stats.Allocated, Reserved: oom.Failure.Stats.Reserved,
		}
	}
	return out
}

func confName(text string) string {
	if text == "" {
		return "default"
	}
	return text
}

// quoted protects what a shell would read: brackets and the greater-than sign of a list of divisions.
func quoted(text string) string {
	if slices.ContainsFunc([]rune(text), func(r rune) bool { return r == '[' || r == '>' || r == ' ' }) {
		return `"` + text + `"`
	}
	return text
}

func (c *Case) fragmented() report.Fragmented {
	f := c.Fragmentation()
	out := report.Fragmented{
		Event: f.Event, Reserved: f.Reserved, InUse: f.Active, Cached: f.Cached, Pinned: f.Pinned, Pins: []report.Pin{},
	}
	stacks := callsite.NewTable(&c.Recording.Snapshot.Stacks)
	out.Pins = append(out.Pins, byLine(f.Pins, stacks)...)
	return out
}

// byLine joins the pins of stacks that end in the same line of the user's code.
func byLine(pins []Pin, stacks *callsite.Table) []report.Pin {
	var out []report.Pin
	at := map[snapshot.Frame]int{}
	for _, p := range pins {
		frame, known := stacks.UserFrame(p.Stack)
		i, seen := at[frame]
		if !seen {
			i = len(out)
			at[frame] = i
			out = append(out, report.Pin{})
			if known {
				out[i].Where = &report.Place{File: frame.File, Line: frame.Line, Function: frame.Function}
			}
		}
		out[i].Blocks += p.Blocks
		out[i].Bytes += p.Bytes
		out[i].Segments += p.Segments
		out[i].Pinned += p.Pinned
	}
	slices.SortStableFunc(out, func(x, y report.Pin) int { return int(min(1, max(-1, y.Pinned-x.Pinned))) })
	return out
}

// doubts says what a replay of this recording cannot know.
func (c *Case) doubts() []string {
	var out []string
	if len(c.tape.Initial) > 0 {
		out = append(out, "the history begins while memory is already held; how that came about is not recorded, so peaks under other settings are less certain")
	}
	if len(c.tape.Pools) > 1 {
		out = append(out, "CUDA graphs or memory pools were in use: their pools are replayed, but when a pool was released is not recorded, so its memory counts as reserved")
	}
	if n := c.Recording.Contradictions; n > 0 {
		out = append(out, units.Count(n)+" events contradict the rest of the history and were left out")
	}
	if c.Fidelity.OOMs > 0 {
		out = append(out, "the recorded run failed, so the history says nothing of what would have come after")
	}
	return out
}
