// Package repair finds changes of a source that remove lint findings.
//
// It takes a source and what lint found in it; out come, on the findings, edits of that source. A change is offered only after it was made and the
// result read and checked again: it parses, the finding is gone, and there is none that was not there before. A safe change leaves the program
// doing what it did; any other one is marked, and somebody has to look at it. Where the code leaves a doubt nothing is offered. It writes no files.
package repair

import (
	"strings"

	"github.com/plimsoll/plimsoll/internal/code/flow"
	"github.com/plimsoll/plimsoll/internal/code/lint"
	"github.com/plimsoll/plimsoll/internal/code/pysource"
)

// Unit is one source to repair.
type Unit struct {
	Source []byte
	Module *flow.Module // the analysis of the source
	// Check looks at the source with edits made in it; nil where they cannot be made where the source comes from.
	Check func([]pysource.Edit) *lint.Report
}

// maxChecked bounds the bytes that are checked again for one source, so that a file with a thousand findings costs no more than a few dozen.
const maxChecked = 8 << 20

// Offer adds repairs to the findings of a report.
func Offer(u Unit, report *lint.Report) {
	if !wanted(report) {
		return
	}
	m := u.Module
	nodes := index(m)
	budget := maxChecked
	tried := map[string]bool{} // edits → whether they passed: several findings may have one repair
	for i := range report.Findings {
		f := &report.Findings[i]
		for _, r := range candidates(m, nodes, *f) {
			key := describe(r.Edits)
			good, known := tried[key]
			if !known || good {
				if budget -= len(u.Source); budget < 0 {
					return
				}
				good = u.proves(report, f, r)
				tried[key] = good
			}
			if good {
				f.Repair = &lint.Repair{Title: r.Title, Edits: r.Edits, Safe: r.Safe}
				break
			}
		}
	}
}

func wanted(report *lint.Report) bool {
	for _, f := range report.Findings {
		if repairs[f.Rule] != nil {
			return true
		}
	}
	return false
}

func describe(edits []pysource.Edit) string {
	var b strings.Builder
	for _, e := range edits {
		b.WriteString(strings.Join([]string{itoa(e.Start), itoa(e.End), e.Text, ""}, "\x00"))
	}
	return b.String()
}

// proves makes a change and looks at the result: no more errors of syntax, this finding gone, no other come.
func (u Unit) proves(report *lint.Report, f *lint.Finding, r lint.Repair) bool {
	changed := u.Check(r.Edits)
	if changed == nil || changed.Errors > report.Errors || Worse(u.Source, r.Edits, report.Findings, changed.Findings) {
		return false
	}
	at := place{f.Rule, newLines(u.Source, r.Edits).moved(f.Line)}
	return count(changed.Findings, unmoved)[at] < count(report.Findings, newLines(u.Source, r.Edits).moved)[at]
}

// Worse tells whether edits of a source bring a finding that was not there before.
func Worse(src []byte, edits []pysource.Edit, before, after []lint.Finding) bool {
	known := count(before, newLines(src, edits).moved)
	for p, n := range count(after, unmoved) {
		if n > known[p] {
			return true
		}
	}
	return false
}

func unmoved(line int) int { return line }

// place is a finding as far as two versions of a source can be compared.
type place struct {
	rule string
	line int
}

func count(findings []lint.Finding, moved func(int) int) map[place]int {
	out := map[place]int{}
	for _, f := range findings {
		out[place{f.Rule, moved(f.Line)}]++
	}
	return out
}

// lines tells where lines go when edits are made.
type lines struct {
	starts []int
	edits  []pysource.Edit
	src    []byte
}

func newLines(src []byte, edits []pysource.Edit) lines {
	starts := []int{0}
	for i, c := range src {
		if c == '\n' {
			starts = append(starts, i+1)
		}
	}
	return lines{starts, edits, src}
}

// moved is the number that a line has afterwards. Text put at the beginning of a line moves that line down.
func (l lines) moved(number int) int {
	if number < 1 || number > len(l.starts) {
		return number
	}
	at, by := l.starts[number-1], 0
	for _, e := range l.edits {
		if e.Start <= at && e.End <= at {
			by += strings.Count(e.Text, "\n") - strings.Count(string(l.src[e.Start:e.End]), "\n")
		}
	}
	return number + by
}

// Edits gathers the repairs of the findings that can be made together, the unsafe ones only where asked for, and counts the findings they remove.
// Repairs that overlap an earlier one wait for the next round.
func Edits(findings []lint.Finding, unsafe bool) ([]pysource.Edit, int) {
	var edits []pysource.Edit
	taken := map[string]bool{}
	fixed := 0
	for _, f := range findings {
		if f.Repair == nil || !f.Repair.Safe && !unsafe {
			continue
		}
		key := describe(f.Repair.Edits)
		if !taken[key] && overlaps(edits, f.Repair.Edits) {
			continue
		}
		if !taken[key] {
			edits = append(edits, f.Repair.Edits...)
			taken[key] = true
		}
		fixed++
	}
	return edits, fixed
}

func overlaps(taken, edits []pysource.Edit) bool {
	for _, a := range taken {
		for _, b := range edits {
			if a.Start < b.End && b.Start < a.End || a.Start == b.Start {
				return true
			}
		}
	}
	return false
}
