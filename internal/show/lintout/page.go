package lintout

import (
	"strings"

	"github.com/plimsoll/plimsoll/internal/code/lint"
	"github.com/plimsoll/plimsoll/internal/show/screen"
)

// Page writes a rule's page: paragraphs wrapped, examples as they are.
func Page(out *screen.Screen, r lint.Rule) {
	out.Line(out.Ink(screen.Bold, r.ID+" "+r.Name), "  ", out.Ink(inkOf(r.Severity), r.Severity.String()))
	if r.Quiet {
		out.Line("Reported only when selected (--select " + r.ID + "), or when a run out of memory points at the line.")
	}
	code := false
	for _, block := range strings.Split(lint.Page(r.ID), "\n\n") {
		if heading, ok := strings.CutPrefix(block, "## "); ok && !code {
			heading, rest, _ := strings.Cut(heading, "\n")
			out.Blank()
			out.Line(out.Ink(screen.Bold, heading))
			if block = rest; block == "" {
				continue
			}
		}
		code = codeBlock(out, block, code)
	}
}

// codeBlock writes a paragraph, or lines between fences, and tells whether a fence is still open.
func codeBlock(out *screen.Screen, block string, code bool) bool {
	if !code && !strings.HasPrefix(block, "```") {
		out.Blank()
		prose(out, block)
		return false
	}
	if code {
		out.Blank()
	}
	for line := range strings.SplitSeq(block, "\n") {
		if strings.HasPrefix(line, "```") {
			code = !code
			continue
		}
		out.Line("    ", screen.Clean(line))
	}
	return code
}

// prose writes a paragraph, or the points of a list one below the other.
func prose(out *screen.Screen, block string) {
	for i, point := range strings.Split("\n"+block, "\n- ") {
		text := strings.TrimSpace(strings.ReplaceAll(point, "\n", " "))
		switch {
		case i > 0:
			out.Hanging("- ", screen.Plain, text)
		case text != "":
			out.Paragraph(0, text)
		}
	}
}
