// Package baseline remembers the findings of old code, so that a check reports only what came after.
//
// It takes findings and a file of findings that are known and returns the findings that are new, and the number of known ones that are gone. A finding
// is known by its file, its rule and the text of its line, not by the line's number: code above it may change. It reads and writes no files.
package baseline

import (
	"cmp"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/plimsoll/plimsoll/internal/code/lint"
)

// Schema names the format of the file.
const Schema = "plimsoll.lint-baseline/1"

// entry is a finding, or several of the same rule on lines with the same text.
type entry struct {
	File  string `json:"file"` // from the folder of the baseline, with slashes
	Rule  string `json:"rule"`
	Line  string `json:"line"`
	Count int    `json:"count"`
}

func (e entry) key() entry { e.Count = 0; return e }

// Baseline is a set of known findings.
type Baseline struct {
	entries []entry
	folder  string
}

// Of makes a baseline of findings. Paths in it start at the folder; absolute tells where a finding's file is.
func Of(folder string, findings []lint.Finding, absolute func(string) string) *Baseline {
	counts := map[entry]int{}
	for _, f := range findings {
		counts[entryOf(folder, absolute(f.File), f)]++
	}
	b := &Baseline{folder: folder}
	for e, n := range counts {
		e.Count = n
		b.entries = append(b.entries, e)
	}
	slices.SortFunc(b.entries, func(a, c entry) int {
		return cmp.Or(strings.Compare(a.File, c.File), strings.Compare(a.Rule, c.Rule), strings.Compare(a.Line, c.Line))
	})
	return b
}

func entryOf(folder, file string, f lint.Finding) entry {
	if rel, err := filepath.Rel(folder, file); err == nil {
		file = rel
	}
	return entry{File: filepath.ToSlash(file), Rule: f.Rule, Line: strings.Join(strings.Fields(f.Source), " ")}
}

type document struct {
	Schema   string  `json:"schema"`
	Findings []entry `json:"findings"`
}

// Read reads a baseline that stands in a folder.
func Read(folder string, text []byte) (*Baseline, error) {
	var d document
	if err := json.Unmarshal(text, &d); err != nil {
		return nil, fmt.Errorf("not a baseline: %w", err)
	}
	if d.Schema != Schema {
		return nil, fmt.Errorf("not a baseline: its schema is %q, not %q; plimsoll lint --write-baseline writes one", d.Schema, Schema)
	}
	return &Baseline{d.Findings, folder}, nil
}

// Bytes writes the baseline, sorted, one finding on few lines, so that changes of it can be reviewed.
func (b *Baseline) Bytes() ([]byte, error) {
	if b.entries == nil {
		b.entries = []entry{}
	}
	var out strings.Builder
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	err := e.Encode(document{Schema, b.entries})
	return []byte(out.String()), err
}

// Len is the number of findings it knows.
func (b *Baseline) Len() int {
	n := 0
	for _, e := range b.entries {
		n += max(e.Count, 0)
	}
	return n
}

// New drops the findings that are known, and counts them and the known ones that were not met again.
func (b *Baseline) New(findings []lint.Finding, absolute func(string) string) (fresh []lint.Finding, known, gone int) {
	left := map[entry]int{}
	for _, e := range b.entries {
		left[e.key()] += max(e.Count, 0)
	}
	for _, f := range findings {
		if key := entryOf(b.folder, absolute(f.File), f); left[key] > 0 {
			left[key]--
			known++
			continue
		}
		fresh = append(fresh, f)
	}
	return fresh, known, b.Len() - known
}
