package diagnose

import (
	"slices"

	"github.com/plimsoll/plimsoll/internal/answer/finding"
	"github.com/plimsoll/plimsoll/internal/answer/report"
	"github.com/plimsoll/plimsoll/internal/evidence/oomtext"
	"github.com/plimsoll/plimsoll/internal/units"
)

// Text is a message with what is known around it.
type Text struct {
	oomtext.Message
	Earlier []oomtext.Message // messages of the same rank before it
	Hints   []oomtext.Hint    // warnings in the same log
}

// textRule looks at a message and speaks or stays silent.
type textRule func(*Text) (report.Finding, bool)

// textRules are listed where they are written, in the order of the questions a person should ask: is it memory of the GPU at all, who holds it, is
// the request sane, was it free, what was the program doing. The last one always speaks.
func textRules() []textRule {
	return slices.Concat(systemRules, requestRules, holderRules, symptomRules)
}

// RunText applies every rule to a message. General findings are made only where nothing better was.
func RunText(t *Text) []report.Finding {
	var found []report.Finding
	for _, r := range textRules() {
		f, ok := r(t)
		told := slices.ContainsFunc(found, func(g report.Finding) bool { return g.ID == f.ID })
		if !ok || told || finding.Is(f.ID, finding.General) && slices.ContainsFunc(found, explainsAll) {
			continue
		}
		f.Device = max(t.Device, 0)
		if len(f.Where) == 0 {
			f.Where = t.where()
		}
		finding.Complete(&f, t.Asker(tags(f)...))
		found = append(found, f)
	}
	Rank(found)
	return found
}

// tags are what a finding adds to the stack of its asker.
func tags(f report.Finding) []string {
	if f.ID == "other-process" && f.Confidence == ranksConfidence {
		return []string{"ranks"}
	}
	return nil
}

// explainsAll tells a finding after which "the GPU is simply full" adds nothing.
func explainsAll(f report.Finding) bool { return f.Severity != report.Warning && f.Confidence >= 0.6 }

// where is the user's line in the traceback.
func (t *Text) where() []report.Place {
	f, ok := t.UserFrame()
	if !ok {
		return []report.Place{}
	}
	return []report.Place{{File: f.File, Line: f.Line, Function: f.Function}}
}

// held is what PyTorch holds from the driver.
func (t *Text) held() (units.Bytes, bool) {
	switch {
	case t.Reserved.Known:
		return t.Reserved.Bytes, true
	case t.Allocated.Known && t.ReservedUnallocated.Known:
		return t.Allocated.Bytes + t.ReservedUnallocated.Bytes, true
	case t.Allocated.Known:
		return t.Allocated.Bytes, true
	}
	return 0, false
}

// unused is what PyTorch holds and does not use.
func (t *Text) unused() (units.Bytes, bool) {
	if t.ReservedUnallocated.Known {
		return t.ReservedUnallocated.Bytes, true
	}
	if t.Reserved.Known && t.Allocated.Known && t.Reserved.Bytes >= t.Allocated.Bytes {
		return t.Reserved.Bytes - t.Allocated.Bytes, true
	}
	return 0, false
}

// limit is what the process could have: the device, or less where a limit is set.
func (t *Text) limit() (units.Bytes, bool) {
	if t.Allowed.Known {
		return t.Allowed.Bytes, true
	}
	return t.Capacity.Bytes, t.Capacity.Known
}

// wouldServe tells whether freeing so many bytes would have made room for the request. Where the request or what was free is not known it is given the benefit of the doubt.
func (t *Text) wouldServe(bytes units.Bytes) bool {
	return !t.Requested.Known || !t.Free.Known || t.Free.Bytes+bytes >= t.Requested.Bytes
}

func (t *Text) onDevice() bool { return t.Kind == oomtext.DeviceOOM }
