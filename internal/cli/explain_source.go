package cli

import (
	"github.com/plimsoll/plimsoll/internal/answer/report"
	"github.com/plimsoll/plimsoll/internal/code/blame"
	"github.com/plimsoll/plimsoll/internal/code/workspace"
)

// nameInSource looks for the causes in the code that ran.
func nameInSource(findings []report.Finding, source string) error {
	files, err := workspace.Settings{}.Files([]string{source})
	if err != nil {
		return unreadable(err)
	}
	blame.Name(findings, LintFindings(blame.Accused(files, findings)))
	return nil
}
