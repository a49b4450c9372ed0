// Package blame ties what went wrong at run time to what is wrong in the source.
//
// It takes the findings of a report or the stack a script was on, and what lint found in its files and returns the lint findings that stand on
// those lines, as evidence and remedy. Source is read by a function it is given; files that cannot be read are left out.
package blame

import (
	"fmt"
	"path/filepath"

	"github.com/plimsoll/plimsoll/internal/answer/report"
	"github.com/plimsoll/plimsoll/internal/code/lint"
)

// most is how many lint findings are shown beside a cause.
const most = 3

// Name adds to each finding the lint findings on the lines it accuses: as evidence, as a remedy, and as a reason to be more certain.
func Name(findings []report.Finding, found []lint.Finding) {
	for i := range findings {
		f := &findings[i]
		var stack []lint.Frame
		for _, place := range f.Where {
			stack = append(stack, lint.Frame{File: place.File, Line: place.Line})
		}
		for _, l := range lint.Raise(found, stack) {
			f.Lint = append(f.Lint, l.Rule)
			f.Evidence = append(f.Evidence, fmt.Sprintf("the code breaks rule %s there, at %s:%d: %s", l.Rule, filepath.Base(l.File), l.Line, l.Message))
			f.Remedies = append(f.Remedies, report.Remedy{Action: l.Fix, CheckedBy: "rule", Command: "plimsoll lint --explain " + l.Rule})
			f.Confidence = 1 - (1-f.Confidence)/2
		}
	}
}

// Accused keeps the files that some finding's stack names; the rest of a large source tree need not be read.
func Accused(files []string, findings []report.Finding) []string {
	named := map[string]bool{}
	for _, f := range findings {
		for _, place := range f.Where {
			named[filepath.Base(filepath.ToSlash(place.File))] = true
		}
	}
	var out []string
	for _, path := range files {
		if named[filepath.Base(path)] {
			out = append(out, path)
		}
	}
	return out
}

// OnStack checks the files of a stack and gives the findings that stand on its lines, the innermost first.
func OnStack(stack []lint.Frame, read func(path string) ([]byte, bool)) []lint.Finding {
	var findings []lint.Finding
	seen := map[string]bool{}
	for _, f := range stack {
		if seen[f.File] {
			continue
		}
		seen[f.File] = true
		if src, ok := read(f.File); ok {
			findings = append(findings, lint.Source(f.File, src, lint.Options{})...)
		}
	}
	raised := lint.Raise(findings, stack)
	return raised[:min(len(raised), most)]
}
