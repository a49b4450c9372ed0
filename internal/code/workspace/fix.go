package workspace

import (
	"github.com/plimsoll/plimsoll/internal/code/lint"
	"github.com/plimsoll/plimsoll/internal/code/notebook"
	"github.com/plimsoll/plimsoll/internal/code/pysource"
	"github.com/plimsoll/plimsoll/internal/code/repair"
)

// maxRounds bounds how often a text is repaired anew: repairs that overlap are made one after another.
const maxRounds = 16

// Fix repairs a text as far as repairs go, the unsafe ones only where asked for, and counts the findings it removed. Each round is checked as a
// whole: repairs that are right one by one but not together are made one by one.
func (w *Workspace) Fix(path string, src []byte, unsafe bool) (text []byte, fixed int, err error) {
	text = src
	for range maxRounds {
		findings, err := w.Text(path, text)
		if err != nil {
			return src, 0, err
		}
		edits, n := repair.Edits(findings, unsafe)
		next, ok := w.apply(path, text, edits, findings)
		if n > 0 && !ok {
			edits, n = repair.Edits(first(findings, unsafe), unsafe)
			next, ok = w.apply(path, text, edits, findings)
		}
		if n == 0 || !ok {
			break
		}
		text, fixed = next, fixed+n
	}
	return text, fixed, nil
}

// first keeps only the first finding with a repair.
func first(findings []lint.Finding, unsafe bool) []lint.Finding {
	for i, f := range findings {
		if f.Repair != nil && (f.Repair.Safe || unsafe) {
			return findings[i : i+1]
		}
	}
	return nil
}

// apply makes edits and tells whether the result is no worse.
func (w *Workspace) apply(path string, src []byte, edits []pysource.Edit, before []lint.Finding) ([]byte, bool) {
	if len(edits) == 0 {
		return src, false
	}
	if !isNotebook(path) {
		text := pysource.Apply(src, edits)
		after, err := w.Text(path, text)
		return text, err == nil && !repair.Worse(src, edits, before, after)
	}
	nb, err := notebook.Read(src)
	if err != nil {
		return src, false
	}
	text, err := nb.Apply(edits)
	if err != nil {
		return src, false
	}
	after, err := w.Text(path, text)
	return text, err == nil && len(after) <= len(before)
}
