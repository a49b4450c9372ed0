package cli

import (
	"io"
	"os"
	"path/filepath"

	"github.com/plimsoll/plimsoll/internal/code/lint"
	"github.com/plimsoll/plimsoll/internal/evidence/probenotes"
	"github.com/plimsoll/plimsoll/internal/show/screen"
	"github.com/plimsoll/plimsoll/internal/units"
)

const (
	maxTied       = 3             // findings shown beside a cause
	maxScriptSize = 4 * units.MiB // a script's file; larger ones are data
)

// tieToCode names what lint finds wrong on the lines the script was on when memory ran out.
func (r *observedRun) tieToCode(dead []probenotes.Process) {
	for _, finding := range tied(dead) {
		r.say("%s:%d %s %s", filepath.Base(finding.File), finding.Line, finding.Rule, screen.Clean(finding.Message))
		if finding.Fix != "" {
			r.say("  %s", screen.Clean(finding.Fix))
		}
	}
}

func tied(dead []probenotes.Process) []lint.Finding {
	var stack []lint.Frame
	for _, p := range dead {
		if n := len(p.OOMs); n > 0 {
			for _, f := range p.OOMs[n-1].Stack {
				stack = append(stack, lint.Frame{File: f.File, Line: f.Line})
			}
			break // ranks run the same script
		}
	}
	var findings []lint.Finding
	seen := map[string]bool{}
	for _, f := range stack {
		if seen[f.File] {
			continue
		}
		seen[f.File] = true
		if src, ok := readScript(f.File); ok {
			findings = append(findings, lint.Source(f.File, src, lint.Options{})...)
		}
	}
	raised := lint.Raise(findings, stack)
	return raised[:min(len(raised), maxTied)]
}

func readScript(path string) ([]byte, bool) {
	f, err := os.Open(path)
	if err != nil {
		return nil, false
	}
	defer f.Close()
	src, err := io.ReadAll(io.LimitReader(f, int64(maxScriptSize)))
	return src, err == nil && len(src) < int(maxScriptSize)
}
