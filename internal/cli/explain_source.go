package cli

import (
	"fmt"
	"path/filepath"

	"github.com/plimsoll/plimsoll/internal/answer/report"
	"github.com/plimsoll/plimsoll/internal/code/lint"
)

// nameInSource looks for the causes in the code: lint findings that stand on the lines a finding accuses are named with it as
// evidence and remedy, and make it more certain.
func nameInSource(findings []report.Finding, source string) error {
	files, err := pythonFiles([]string{source}, nil, false)
	if err != nil {
		return unreadable(err)
	}
	found := LintFindings(accused(files, findings))
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
	return nil
}

// accused keeps the files that some finding's stack names; the rest of a large source tree need not be read.
func accused(files []string, findings []report.Finding) []string {
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
