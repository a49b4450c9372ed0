// Package finding is the catalogue of everything explain can say.
//
// It takes the id of a finding and returns its entry: what it means, what it rests on, what would show it to be wrong, what to do and for whom, and how
// it stands to other findings. Rules in package diagnose decide when a finding holds and add the numbers; what is always the same about it is here, once.
// An id without an entry is refused. docs/findings.md is generated from the catalogue.
package finding

import (
	"slices"

	"github.com/plimsoll/plimsoll/internal/answer/report"
	"github.com/plimsoll/plimsoll/internal/units"
)

// Entry is one finding of the catalogue.
type Entry struct {
	ID       string
	Class    Class
	Severity string // the worst it reports
	Title    string // the finding in one sentence; a rule that knows numbers says more
	Evidence string // what it rests on
	Refuted  string // what would show it to be wrong
	Remedies []Remedy
	Note     string // what people expect to help and does not
}

// Remedy is something to do, and for whom. A finding offers those that fit the asker, in this order.
type Remedy struct {
	Action   string
	Command  string
	Numerics bool // it changes what is computed
	Frees    bool // it gives back the bytes of the finding
	Last     bool // it is offered only where nothing before it fits
	For      report.Applies
}

// Class says how a finding stands to others. A finding can have several.
type Class uint8

// The classes.
const (
	// General findings say that the card is full and nothing more. A special cause goes before them, waste makes them superfluous.
	General Class = 1 << iota
	// WhereItFailed findings say what the program was doing when the card was full. Waste that would have served the request goes before them.
	WhereItFailed
	// Waste is memory that nothing needs.
	Waste
	// Lasting waste grows or never goes away: allocator settings would only put the failure off.
	Lasting
	// Special findings say why the activations are so many.
	Special
	// FromMessage findings can be added by a message to a snapshot of the same failure: only the driver or the system knows them.
	FromMessage
	// Verdict findings are the answer themselves: the message is not about what the GPU's allocator was asked for.
	Verdict
)

// Is tells whether the finding with this id has a class.
func Is(id string, c Class) bool {
	e, ok := ByID(id)
	return ok && e.Class&c != 0
}

// ByID finds an entry.
func ByID(id string) (Entry, bool) {
	i, ok := index[id]
	if !ok {
		return Entry{}, false
	}
	return all[i], true
}

// IDs lists the ids in the order of the catalogue.
func IDs() []string {
	var out []string
	for _, e := range all {
		out = append(out, e.ID)
	}
	return out
}

// all is the catalogue, section after section.
var all = func() []Entry {
	var out []Entry
	for _, s := range sections {
		out = append(out, s.entries...)
	}
	return out
}()

var index = func() map[string]int {
	out := map[string]int{}
	for i, e := range all {
		out[e.ID] = i
	}
	return out
}()

// Complete fills in what a rule left to the catalogue: severity, title, what would refute it, remedies, and for whom they are.
func Complete(f *report.Finding, who Asker) {
	e, ok := ByID(f.ID)
	if !ok {
		return
	}
	if f.Severity == "" {
		f.Severity = e.Severity
	}
	if f.Title == "" {
		f.Title = e.Title
	}
	if f.Refuted == "" {
		f.Refuted = e.Refuted
	}
	for i := range f.Remedies {
		if f.Remedies[i].AppliesTo == nil {
			f.Remedies[i].AppliesTo = &report.Applies{Framework: []string{PyTorch}}
		}
	}
	f.Remedies = slices.DeleteFunc(f.Remedies, func(r report.Remedy) bool { return !who.fits(*r.AppliesTo) })
	if len(f.Remedies) == 0 {
		f.Remedies = e.remedies(who, f.Bytes)
	}
	if f.Where == nil {
		f.Where = []report.Place{}
	}
}

// mostRemedies is how many are offered: those that fit best come first.
const mostRemedies = 4

// remedies lists what an entry offers the asker; bytes are those of the finding.
func (e Entry) remedies(who Asker, bytes units.Bytes) []report.Remedy {
	out := []report.Remedy{}
	for _, r := range e.Remedies {
		if len(out) == mostRemedies || r.Last && len(out) > 0 || !who.fits(r.For) {
			continue
		}
		applies := r.For
		remedy := report.Remedy{Action: r.Action, Command: r.Command, Numerics: r.Numerics, CheckedBy: report.ByRule, AppliesTo: &applies}
		if r.Frees && bytes > 0 {
			remedy.Saves, remedy.CheckedBy = bytes, report.ByArithmetic
		}
		out = append(out, remedy)
	}
	return out
}
