package finding

import (
	"fmt"
	"strings"

	"github.com/plimsoll/plimsoll/internal/answer/report"
)

const pageHead = `# What ` + "`plimsoll explain`" + ` can find

<!-- Generated from internal/answer/finding by: go test ./internal/answer/finding -update -->

One entry for each finding id of ` + "`explain --json`" + `: what it means, what it is based on, what would prove it wrong, and what to do. A finding about a failure has
severity ` + "`error`" + `; the same in a run that survived is a ` + "`warning` or a `note`" + `. Snapshots show lines and bytes; messages alone show less, and the
confidence says so. Where several apply, the one that explains the others comes first: a leak, for example, before the line where the GPU happened to be full.

Some remedies apply only to certain programs (` + "`remedies[].applies_to`" + `); the program is named in brackets.
`

// Page is docs/findings.md.
func Page() string {
	var b strings.Builder
	b.WriteString(pageHead)
	for _, s := range sections {
		fmt.Fprintf(&b, "\n## %s\n", s.title)
		for _, e := range s.entries {
			fmt.Fprintf(&b, "\n### %s\n%s.\n- *Evidence:* %s.\n- *Refuted by:* %s.\n- *Do:*\n", e.ID, e.Title, e.Evidence, e.Refuted)
			for _, r := range e.Remedies {
				fmt.Fprintf(&b, "  - %s%s\n", r.Action, audience(r.For))
			}
			if e.Note != "" {
				fmt.Fprintf(&b, "\n  %s\n", e.Note)
			}
		}
	}
	b.WriteString("\n" + calibration)
	return b.String()
}

// audience names whom a remedy is for, "" everyone.
func audience(to report.Applies) string {
	var words []string
	for _, list := range [][]string{to.Framework, to.Backend, to.OS, to.Work} {
		if len(list) > 0 {
			words = append(words, strings.Join(list, "/"))
		}
	}
	if to.Torch != "" {
		words = append(words, "from "+to.Torch+" on")
	}
	if len(words) == 0 {
		return ""
	}
	return " [" + strings.Join(words, ", ") + "]"
}
