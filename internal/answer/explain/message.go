package explain

import (
	"slices"

	"github.com/plimsoll/plimsoll/internal/answer/diagnose"
	"github.com/plimsoll/plimsoll/internal/answer/finding"
	"github.com/plimsoll/plimsoll/internal/answer/report"
	"github.com/plimsoll/plimsoll/internal/evidence/oomtext"
	"github.com/plimsoll/plimsoll/internal/units"
)

// text is a message, the input it stands in, and those of its rank before it.
type text struct {
	input string
	diagnose.Text
}

// follow takes the next message of the same rank. It replaces the one before, which led there, unless it says less: it was cut, and that one is whole.
func (t *text) follow(m oomtext.Message) {
	if m.Truncated && !t.Truncated {
		return
	}
	t.Earlier = append(t.Earlier, t.Message)
	t.Message = m
}

// messages puts the messages of all texts into the report. Of one rank's several messages the last is diagnosed.
func messages(r *report.Explain, all []Evidence) []text {
	var texts []text
	for _, e := range all {
		last := map[int]int{} // by rank: index into texts
		for _, m := range e.Messages {
			shown := message(e.Name, m)
			r.Messages = append(r.Messages, shown)
			if i, ok := last[m.Rank]; ok && texts[i].Kind == m.Kind {
				texts[i].follow(m)
				continue
			}
			last[m.Rank] = len(texts)
			texts = append(texts, text{e.Name, diagnose.Text{Message: m, Hints: e.Hints}})
		}
	}
	if len(r.Messages) > 0 {
		r.Message = r.Messages[0]
	}
	if len(r.Messages) == 1 {
		r.Messages = nil
	}
	return texts
}

func message(input string, m oomtext.Message) *report.Message {
	phase, _ := m.Phase()
	who := (&diagnose.Text{Message: m}).Asker()
	out := &report.Message{
		Work: who.Work, OS: who.OS,
		Format: m.Format, Backend: m.Backend, Library: m.Library, Device: m.Device, Phase: string(phase), Input: input, Line: m.Line,
		Requested: amount(m.Requested), Capacity: amount(m.Capacity), Free: amount(m.Free), Process: amount(m.Process),
		Allocated: amount(m.Allocated), Reserved: amount(m.Reserved), ReservedUnallocated: amount(m.ReservedUnallocated),
		PrivatePools: amount(m.PrivatePools), Allowed: amount(m.Allowed), Others: []report.Process{},
	}
	if m.Rank >= 0 {
		out.Rank = &m.Rank
	}
	if len(who.Stack) > 0 {
		out.Framework = who.Stack[0]
	}
	for _, p := range m.Others {
		out.Others = append(out.Others, report.Process{PID: p.PID, Bytes: p.Held.Bytes})
	}
	return out
}

func amount(a oomtext.Amount) *units.Bytes {
	if !a.Known {
		return nil
	}
	return &a.Bytes
}

// of tells whether a message, or one before it, is about the request that a recording failed with. PyTorch prints what it asked the
// driver for (alloc_size in DeviceCachingAllocator::malloc, c10/cuda/CUDACachingAllocator.cpp).
func (t *text) of(c *diagnose.Case) bool {
	return slices.ContainsFunc(append(slices.Clone(t.Earlier), t.Message), func(m oomtext.Message) bool {
		r := m.Requested
		near := func(b units.Bytes) bool { return r.Bytes-r.Within <= b && b <= r.Bytes+r.Within }
		return r.Known && (near(c.OOM.Request) || near(c.OOM.Segment))
	})
}

// recordings are those that failed with the request of a message.
func (t *text) recordings(cases []*diagnose.Case) []*diagnose.Case {
	return slices.DeleteFunc(slices.Clone(cases), func(c *diagnose.Case) bool { return c.OOM == nil || c.Device != t.Device || !t.of(c) })
}

// applyLimit takes the limit of a failed run from a message about the same device: it was printed at that moment. Where several runs failed, the message has to be
// about the same request, and no limit lies below what the run held.
func applyLimit(c *diagnose.Case, texts []text, several bool) {
	if c.OOM == nil {
		return
	}
	for _, t := range texts {
		if t.Device != c.Device || t.Kind != oomtext.DeviceOOM || several && !t.of(c) {
			continue
		}
		limit := t.Allowed
		if limit.Known && limit.Bytes+limit.Within < c.OOM.Held {
			continue
		}
		if !limit.Known && t.Free.Known && t.Free.Bytes < c.OOM.Segment {
			continue // the driver's own numbers in the snapshot are exact
		}
		if limit.Known {
			c.OOM.Limit = diagnose.Limit{Low: limit.Bytes - limit.Within, High: limit.Bytes + limit.Within, Bytes: limit.Bytes, From: "message"}
			if r := c.Replay; r != nil && r.Limit.Cap > 0 && limit.Bytes >= r.Limit.AtLeast && (r.Limit.Below == 0 || limit.Bytes < r.Limit.Below) {
				r.Limit.Cap = limit.Bytes // what the history shows of it, made precise
			}
		}
	}
}

// textFindings diagnoses messages; beside a snapshot of a failure only for what the snapshot cannot know.
func textFindings(texts []text, cases []*diagnose.Case) []report.Finding {
	failed := slices.ContainsFunc(cases, func(c *diagnose.Case) bool { return c.OOM != nil })
	var out []report.Finding
	for _, t := range texts {
		for _, f := range diagnose.RunText(&t.Text) {
			f.Input = t.input
			if same := t.recordings(cases); len(cases) > 1 && len(same) == 1 {
				f.Input, f.Device = same[0].Input, same[0].Device
			}
			if !failed || finding.Is(f.ID, finding.FromMessage) {
				out = append(out, f)
			}
		}
	}
	return out
}
