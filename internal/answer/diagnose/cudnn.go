package diagnose

import (
	"fmt"

	"github.com/plimsoll/plimsoll/internal/answer/report"
	"github.com/plimsoll/plimsoll/internal/evidence/recording"
	"github.com/plimsoll/plimsoll/internal/memory/tape"
	"github.com/plimsoll/plimsoll/internal/units"
)

// cudnnWorkspace: a convolution's scratch memory failed, or makes the peak.
func cudnnWorkspace(c *Case) (claim, bool) {
	if c.OOM == nil {
		return workspacePeak(c)
	}
	if !c.innermost(c.OOM.Stack, convolutions...) {
		return claim{}, false
	}
	var largest units.Bytes
	from, before := c.lastQuiet(), false
	for i := range c.OOM.Event {
		e := &c.Tape.Events[i]
		if e.Kind == tape.Alloc && c.Stack[e.ID] == c.OOM.Stack {
			largest = max(largest, e.Size)
			before = before || i <= from
		}
	}
	if c.OOM.Request <= largest || largest == 0 {
		return claim{}, false
	}
	severity, confidence := report.Warning, 0.55
	if ratio, _, _, _ := c.spike(); before && ratio < 1.25 {
		severity, confidence = report.Error, 0.72 // earlier steps ran it with inputs as large
	}
	f := report.Finding{
		ID: "cudnn-workspace", Severity: severity, Confidence: confidence, Bytes: c.OOM.Request, Where: c.failurePlace(),
		Title:    "the request may be a convolution's workspace",
		Evidence: []string{fmt.Sprintf("a convolution requested %s, more than the %s of any earlier tensor from that line", c.OOM.Request, largest)},
	}
	return claim{kind: normal, Finding: f}, true
}

// workspacePeak: the peak is scratch memory of one operator: it is given back before anything else is asked for, and larger than everything that operator keeps.
func workspacePeak(c *Case) (claim, bool) {
	at := c.Peak.Event
	if at < 0 {
		return claim{}, false
	}
	id := c.Tape.Events[at].ID
	size := c.Size(int(id))
	if 3*size < c.InUse || c.Died[id] == recording.NeverFreed {
		return claim{}, false
	}
	for i := at + 1; i < int(c.Died[id]); i++ {
		if c.Tape.Events[i].Kind == tape.Alloc {
			return claim{}, false
		}
	}
	stack := c.Stack[id]
	if stack != 0 && !c.innermost(stack, convolutions...) {
		return claim{}, false
	}
	var kept units.Bytes // the largest tensor of that line that stays
	for other := range c.Died {
		if c.Stack[other] == stack && c.Size(other) < size {
			if born, died := int(c.Born[other]), c.Died[other]; died == recording.NeverFreed || int(died) > born+4 {
				kept = max(kept, c.Size(other))
			}
		}
	}
	if stack == 0 && !c.convolvesBackward() || 2*kept > size {
		return claim{}, false
	}
	return claim{kind: normal, Finding: report.Finding{
		ID: "cudnn-workspace", Severity: report.Warning, Confidence: 0.75, Bytes: size, Where: c.workspacePlaces(at),
		Title: fmt.Sprintf("the peak is a convolution's workspace of %s", size),
		Evidence: []string{
			fmt.Sprintf("%s of the %s at the peak was requested and freed by one convolution; the largest tensor it keeps is %s", size, c.InUse, kept),
			"with torch.backends.cudnn.benchmark = True cuDNN tries algorithms with workspaces of any size",
		},
	}}, true
}

// convolvesBackward tells whether the program has convolutions at all: their backward pass has no stack.
func (c *Case) convolvesBackward() bool {
	for i := range c.Origins.Stacks.Frames {
		if c.Origins.Stacks.Frames[i].Function == "_conv_forward" {
			return true
		}
	}
	return false
}

// workspacePlaces is the line of a workspace; one of the backward pass has none, and the last line before it stands for it.
func (c *Case) workspacePlaces(event int) []report.Place {
	for i := event; i >= 0; i-- {
		if e := &c.Tape.Events[i]; e.Kind == tape.Alloc && c.Stack[e.ID] != 0 {
			if places := c.places(c.Stack[e.ID]); len(places) > 0 {
				return places
			}
		}
	}
	return nil
}
