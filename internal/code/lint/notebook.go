package lint

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/plimsoll/plimsoll/internal/code/flow"
)

// cellLine is where a line of the joined source comes from.
type cellLine struct{ cell, line int }

// Notebook checks a notebook and gives the findings that the options and the comments in it leave.
func Notebook(path string, src []byte, opts Options) ([]Finding, error) {
	report, err := CheckNotebook(path, src, opts.Lookup)
	if err != nil {
		return nil, err
	}
	return report.Choose(opts), nil
}

// CheckNotebook checks the code cells of a Jupyter notebook (nbformat 3 or 4) as one program, in their order. Lines for the shell and
// for IPython ("!pip", "%magic", "?") are left out. Findings name the cell, counted from 1 over all cells, and the line within it.
func CheckNotebook(path string, src []byte, lookup flow.Lookup) (*Report, error) {
	joined, origin, err := joinCells(src)
	if err != nil {
		return nil, fmt.Errorf("read notebook %s: %w", path, err)
	}
	report := Check(path, joined, lookup)
	move := func(f *Finding) {
		if f.Line-1 < len(origin) {
			at := origin[f.Line-1]
			shift := at.line - f.Line
			f.Cell, f.Line, f.EndLine, f.First, f.Last = at.cell, f.Line+shift, f.EndLine+shift, f.First+shift, f.Last+shift
		}
	}
	for i := range report.Findings {
		report.Findings[i].Repair = nil // offsets into the joined text mean nothing in the file
		move(&report.Findings[i])
	}
	for i := range report.Suppressions {
		s := &report.Suppressions[i]
		before := s.At.Line
		move(&s.At)
		s.Cell, s.Line = s.At.Cell, s.Line+s.At.Line-before
	}
	return report, nil
}

type notebook struct {
	Cells      []cell `json:"cells"`
	Worksheets []struct {
		Cells []cell `json:"cells"`
	} `json:"worksheets"`
}

type cell struct {
	Type   string          `json:"cell_type"`
	Source json.RawMessage `json:"source"`
	Input  json.RawMessage `json:"input"` // nbformat 3
}

func joinCells(src []byte) ([]byte, []cellLine, error) {
	var nb notebook
	if err := json.Unmarshal(src, &nb); err != nil {
		return nil, nil, err
	}
	cells := nb.Cells
	for _, w := range nb.Worksheets {
		cells = append(cells, w.Cells...)
	}
	var out bytes.Buffer
	var origin []cellLine
	for i, c := range cells {
		text := cellText(c)
		if c.Type != "code" || strings.HasPrefix(strings.TrimSpace(text), "%%") && !strings.HasPrefix(strings.TrimSpace(text), "%%time") {
			continue
		}
		shell := false // inside a shell command that a backslash continues
		for j, line := range strings.Split(text, "\n") {
			plain := withoutMagic(line)
			if shell {
				plain = ""
			}
			shell = (shell || plain != line) && strings.HasSuffix(strings.TrimSpace(line), "\\")
			out.WriteString(plain + "\n")
			origin = append(origin, cellLine{i + 1, j + 1})
		}
	}
	return out.Bytes(), origin, nil
}

// cellText is a cell's source: a string, or a list of lines.
func cellText(c cell) string {
	raw := c.Source
	if raw == nil {
		raw = c.Input
	}
	var whole string
	if json.Unmarshal(raw, &whole) == nil {
		return whole
	}
	var lines []string
	if json.Unmarshal(raw, &lines) == nil {
		return strings.Join(lines, "")
	}
	return ""
}

// withoutMagic turns a line that is not Python into a pass of the same indentation.
func withoutMagic(line string) string {
	text := strings.TrimLeft(line, " \t")
	if text == "" || !strings.ContainsRune("!%?", rune(text[0])) && !strings.HasSuffix(strings.TrimSpace(line), "?") {
		return line
	}
	return line[:len(line)-len(text)] + "pass"
}
