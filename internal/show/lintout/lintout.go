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
	if len(s.Findings) == 0 {
		out.Line(fmt.Sprintf("%s read, nothing found.", plural(s.Files, "file")))
		return
	}
	out.Line(fmt.Sprintf("%s, %s, %s; %s read.", plural(errors, "error"), plural(warnings, "warning"), plural(notes, "note"), plural(s.Files, "file")))
	out.Line(out.Ink(screen.Faint, "plimsoll lint --explain "+s.Findings[0].Rule+" tells more about a rule."))
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

type jsonFinding struct {
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
}

// JSON writes the contract plimsoll.lint/1.
func JSON(w io.Writer, s Summary) error {
	findings := make([]jsonFinding, 0, len(s.Findings))
	for _, f := range s.Findings {
		r, _ := lint.RuleByID(f.Rule)
		findings = append(findings, jsonFinding{f.Rule, r.Name, f.Severity, f.File, f.Cell, f.Line, f.Column, f.EndLine, f.EndColumn, f.Message, f.Fix, f.Repair != nil})
	}
	return encode(w, struct {
		Schema   string        `json:"schema"`
		Files    int           `json:"files"`
		Fixed    int           `json:"fixed"`
		Findings []jsonFinding `json:"findings"`
	}{Schema, s.Files, s.Fixed, findings})
}

func encode(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(v)
}

// GitHub writes workflow commands that annotate the lines of a pull request.
func GitHub(w io.Writer, s Summary) error {
	for _, f := range s.Findings {
		level := map[lint.Severity]string{lint.Error: "error", lint.Warning: "warning", lint.Note: "notice"}[f.Severity]
		_, err := fmt.Fprintf(w, "::%s file=%s,line=%d,endLine=%d,col=%d,title=%s::%s\n", level,
			property(f.File), f.Line, f.EndLine, f.Column, property(f.Rule), data(f.Message+"\nfix: "+f.Fix))
		if err != nil {
			return err
		}
	}
	return nil
}

// data and property escape as the workflow command toolkit does.
func data(s string) string {
	return strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A").Replace(s)
}

func property(s string) string {
	return strings.NewReplacer(":", "%3A", ",", "%2C").Replace(data(s))
}
