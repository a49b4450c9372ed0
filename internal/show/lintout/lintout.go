// Package lintout writes lint findings for people and for machines.
//
// It takes findings and what was read and returns text with the source line underlined, JSON (schema plimsoll.lint/1), SARIF 2.1.0
// (https://docs.oasis-open.org/sarif/sarif/v2.1.0/), GitHub workflow annotations, and a rule's page. It judges nothing and writes
// only to the io.Writer it was given; source text is cleaned before it reaches a terminal.
package lintout

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/plimsoll/plimsoll/internal/code/lint"
	"github.com/plimsoll/plimsoll/internal/show/screen"
)

// Schema names the JSON contract.
const Schema = "plimsoll.lint/1"

// Summary is what a run has to say besides its findings.
type Summary struct {
	Findings []lint.Finding
	Files    int
	Fixed    int
	Known    int // hidden by the baseline
	Gone     int // in the baseline and not in the code any more
}

// Count gives the number of findings of each severity.
func (s Summary) Count() (errors, warnings, notes int) {
	for _, f := range s.Findings {
		switch f.Severity {
		case lint.Error:
			errors++
		case lint.Warning:
			warnings++
		default:
			notes++
		}
	}
	return errors, warnings, notes
}

// Text writes the findings for a person.
func Text(out *screen.Screen, s Summary) {
	for _, f := range s.Findings {
		finding(out, f)
	}
	errors, warnings, notes := s.Count()
	if s.Fixed > 0 {
		out.Line(fmt.Sprintf("%s fixed.", plural(s.Fixed, "finding")))
	}
	if s.Known > 0 {
		out.Line(fmt.Sprintf("%s in the baseline not shown.", plural(s.Known, "finding")))
	}
	if s.Gone > 0 {
		out.Paragraph(0, fmt.Sprintf("%s of the baseline no longer in the code: --write-baseline brings it up to date.", plural(s.Gone, "finding")))
	}
	if len(s.Findings) == 0 {
		out.Line(fmt.Sprintf("%s read, nothing found.", plural(s.Files, "file")))
		return
	}
	out.Line(fmt.Sprintf("%s, %s, %s; %s read.", plural(errors, "error"), plural(warnings, "warning"), plural(notes, "note"), plural(s.Files, "file")))
	if text := s.fixable(); text != "" {
		out.Paragraph(0, text)
	}
	out.Line(out.Ink(screen.Faint, "plimsoll lint --explain "+s.Findings[0].Rule+" tells more about a rule."))
}

// fixable says what the flags would repair.
func (s Summary) fixable() string {
	safe, unsafe := 0, 0
	for _, f := range s.Findings {
		switch {
		case f.Repair == nil:
		case f.Repair.Safe:
			safe++
		default:
			unsafe++
		}
	}
	switch {
	case safe > 0 && unsafe > 0:
		return fmt.Sprintf("%d can be fixed with --fix, %d more with --fix --unsafe-fixes; --diff shows how.", safe, unsafe)
	case safe > 0:
		return fmt.Sprintf("%d can be fixed with --fix; --diff shows how.", safe)
	case unsafe > 0:
		return fmt.Sprintf("%d can be fixed with --fix --unsafe-fixes; --diff --unsafe-fixes shows how.", unsafe)
	}
	return ""
}

func plural(n int, word string) string {
	if n == 1 {
		return "1 " + word
	}
	return fmt.Sprintf("%d %ss", n, word)
}

func inkOf(s lint.Severity) screen.Ink {
	switch s {
	case lint.Error:
		return screen.Red
	case lint.Warning:
		return screen.Yellow
	}
	return screen.Blue
}

// finding writes one: where, what, the line, why and what to do.
func finding(out *screen.Screen, f lint.Finding) {
	name := ""
	if r, ok := lint.RuleByID(f.Rule); ok {
		name = " " + r.Name
	}
	ink := inkOf(f.Severity)
	place, verdict := screen.Clean(where(f)), out.Ink(ink, f.Severity.String())+" "+f.Rule+name
	if screen.Columns(place)+2+screen.Columns(verdict) <= out.Width() {
		out.Line(out.Ink(screen.Bold, place), "  ", verdict)
	} else {
		out.Line(out.Ink(screen.Bold, place))
		out.Line("  ", verdict)
	}
	source, from, width := excerpt(f, out.Width()-7)
	out.Line(fmt.Sprintf("%5d  ", f.Line), source)
	out.Line(strings.Repeat(" ", 7+from), out.Ink(ink, strings.Repeat("^", width)))
	out.Paragraph(2, screen.Clean(f.Message))
	out.Hanging("  fix: ", screen.Green, screen.Clean(f.Fix))
	if f.Repair != nil {
		flag := map[bool]string{true: "--fix", false: "--unsafe-fixes"}[f.Repair.Safe]
		out.Hanging("  "+flag+": ", screen.Faint, screen.Clean(f.Repair.Title))
	}
	out.Blank()
}

func where(f lint.Finding) string {
	if f.Cell > 0 {
		return fmt.Sprintf("%s:cell %d:%d:%d", f.File, f.Cell, f.Line, f.Column)
	}
	return fmt.Sprintf("%s:%d:%d", f.File, f.Line, f.Column)
}

// excerpt cuts the source line to the screen and says what to underline in it.
func excerpt(f lint.Finding, room int) (text string, from, width int) {
	line := strings.ReplaceAll(f.Source, "\t", " ")
	start := min(max(f.Column-1, 0), len(line))
	end := len(line)
	if f.EndLine == f.Line {
		end = min(max(f.EndColumn-1, start), len(line))
	}
	indent := len(line) - len(strings.TrimLeft(line, " "))
	indent = min(indent, start)
	before, marked := screen.Columns(screen.Clean(line[indent:start])), screen.Columns(screen.Clean(line[start:end]))
	text = screen.Fit(screen.Clean(line[indent:]), max(room, 20))
	from = min(before, screen.Columns(text))
	return text, from, max(1, min(marked, screen.Columns(text)-from))
}

// Finding is one finding of Document.
type Finding struct {
	Rule      string        `json:"rule"`
	Name      string        `json:"name,omitempty"`
	Severity  lint.Severity `json:"severity"`
	File      string        `json:"file"`
	Cell      int           `json:"cell,omitempty"`
	Line      int           `json:"line"`
	Column    int           `json:"column"`
	EndLine   int           `json:"end_line"`
	EndColumn int           `json:"end_column"`
	Message   string        `json:"message"`
	Fix       string        `json:"fix"`
	Fixable   bool          `json:"fixable"`
	Repair    *Repair       `json:"repair,omitempty"`
}

// Repair is a change that removes a finding; its edits count bytes of the file (of a notebook: of its code cells as one source).
type Repair struct {
	Title string `json:"title"`
	Safe  bool   `json:"safe"`
	Edits []Edit `json:"edits"`
}

// Edit replaces a stretch of bytes.
type Edit struct {
	Start int    `json:"start"`
	End   int    `json:"end"`
	Text  string `json:"text"`
}

func repairOf(f lint.Finding) *Repair {
	if f.Repair == nil {
		return nil
	}
	out := &Repair{Title: f.Repair.Title, Safe: f.Repair.Safe}
	for _, e := range f.Repair.Edits {
		out.Edits = append(out.Edits, Edit(e))
	}
	return out
}

// JSON writes the contract plimsoll.lint/1.
func JSON(w io.Writer, s Summary) error {
	findings := make([]Finding, 0, len(s.Findings))
	for _, f := range s.Findings {
		r, _ := lint.RuleByID(f.Rule)
		findings = append(findings, Finding{f.Rule, r.Name, f.Severity, f.File, f.Cell, f.Line, f.Column, f.EndLine, f.EndColumn, f.Message, f.Fix, f.Repair != nil, repairOf(f)})
	}
	return encode(w, Document{Schema, s.Files, s.Fixed, s.Known, findings})
}

// Document is the answer of plimsoll lint --json.
type Document struct {
	Schema   string    `json:"schema"`
	Files    int       `json:"files"`
	Fixed    int       `json:"fixed"`
	Known    int       `json:"known,omitempty"`
	Findings []Finding `json:"findings"`
}

func encode(w io.Writer, v any) error {
	e := json.NewEncoder(screen.JSON(w))
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(v)
}

// GitHub writes workflow commands that annotate the lines of a pull request.
func GitHub(w io.Writer, s Summary) error {
	for _, f := range s.Findings {
		level := map[lint.Severity]string{lint.Error: "error", lint.Warning: "warning", lint.Note: "notice"}[f.Severity]
		at := fmt.Sprintf("line=%d,endLine=%d,col=%d", f.Line, f.EndLine, f.Column)
		if f.Cell > 0 {
			at = fmt.Sprintf("line=%d,endLine=%d", f.FileLine, f.FileLine)
		}
		_, err := fmt.Fprintf(w, "::%s file=%s,%s,title=%s::%s\n", level, property(f.File), at, property(f.Rule), data(inCell(f)+f.Message+"\nfix: "+f.Fix))
		if err != nil {
			return err
		}
	}
	return nil
}

// inCell names the cell where a format has no place for it.
func inCell(f lint.Finding) string {
	if f.Cell == 0 {
		return ""
	}
	return fmt.Sprintf("cell %d, line %d: ", f.Cell, f.Line)
}

// data and property escape as the workflow command toolkit does.
func data(s string) string {
	return strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A").Replace(s)
}

func property(s string) string {
	return strings.NewReplacer(":", "%3A", ",", "%2C").Replace(data(s))
}
