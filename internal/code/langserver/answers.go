package langserver

import (
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/plimsoll/plimsoll/internal/code/lint"
	"github.com/plimsoll/plimsoll/internal/code/pysource"
	"github.com/plimsoll/plimsoll/internal/code/repair"
)

// The kinds of code actions.
const (
	kindQuickFix = "quickfix"
	kindFixAll   = "source.fixAll.plimsoll"
)

// text is a document's text with what is needed to speak of places in it.
type text struct {
	src   []byte
	lines []int // where each line starts
	utf8  bool
}

func (s *server) textOf(d *document) text {
	lines := []int{0}
	for i, c := range d.checked {
		if c == '\n' {
			lines = append(lines, i+1)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return text{d.checked, lines, s.utf8}
}

// at is the position of an offset.
func (t text) at(offset int) position {
	offset = min(max(offset, 0), len(t.src))
	line, found := slices.BinarySearch(t.lines, offset)
	if !found {
		line--
	}
	return position{line, t.units(t.src[t.lines[line]:offset])}
}

// units is the length of text as the editor counts it.
func (t text) units(b []byte) int {
	if t.utf8 {
		return len(b)
	}
	n := 0
	for len(b) > 0 {
		r, size := utf8.DecodeRune(b)
		n++
		if r > 0xFFFF {
			n++
		}
		b = b[size:]
	}
	return n
}

func (t text) span(from, to int) textRange { return textRange{t.at(from), t.at(to)} }

// place is the range of a finding; of a notebook that the editor shows as the JSON it is, the line.
func (t text) place(f lint.Finding) textRange {
	if f.Cell > 0 {
		line := min(max(f.FileLine-1, 0), len(t.lines)-1)
		return t.span(t.lines[line], t.lineEnd(line))
	}
	return t.span(int(f.Span.Start), int(f.Span.End))
}

// lineEnd is the offset of a line's end.
func (t text) lineEnd(line int) int {
	end := len(t.src)
	if line+1 < len(t.lines) {
		end = t.lines[line+1] - 1
	}
	if end > t.lines[line] && t.src[end-1] == '\r' {
		end--
	}
	return end
}

func (t text) diagnostic(f lint.Finding) diagnostic {
	d := diagnostic{Range: t.place(f), Severity: severityInformation, Code: f.Rule, Source: "plimsoll", Message: f.Message + "\nfix: " + f.Fix}
	switch f.Severity {
	case lint.Error:
		d.Severity = severityError
	case lint.Warning:
		d.Severity = severityWarning
	}
	if f.Rule == lint.UnusedRule {
		d.Tags = []int{1}
	}
	return d
}

func (s *server) diagnostics(d *document) []diagnostic {
	t := s.textOf(d)
	out := []diagnostic{}
	for _, f := range d.findings {
		out = append(out, t.diagnostic(f))
	}
	return out
}

// codeActions offers the repairs of the findings in a range, a comment that silences each, and all safe repairs at once.
func (s *server) codeActions(p codeActionParams) (any, error) {
	actions := []codeAction{}
	d := s.current(p.TextDocument.URI)
	if d == nil {
		return actions, nil
	}
	t := s.textOf(d)
	for _, f := range d.findings {
		if f.Cell > 0 || !t.place(f).overlaps(p.Range) || !asked(p, kindQuickFix) {
			continue
		}
		about := []diagnostic{t.diagnostic(f)}
		if f.Repair != nil {
			title := f.Repair.Title
			if !f.Repair.Safe {
				title += " (review it: it may change what the program does)"
			}
			actions = append(actions, codeAction{title, kindQuickFix, about, f.Repair.Safe, t.edit(d.uri, f.Repair.Edits)})
		}
		if f.Rule != lint.UnusedRule && f.Rule != lint.SyntaxRule {
			actions = append(actions, codeAction{"Silence " + f.Rule + " on this line", kindQuickFix, about, false, t.edit(d.uri, t.silence(f))})
		}
	}
	if edits, n := repair.Edits(d.findings, false); n > 0 && asked(p, kindFixAll) && !strings.HasSuffix(d.path, ".ipynb") {
		actions = append(actions, codeAction{"Apply all safe fixes", kindFixAll, nil, false, t.edit(d.uri, edits)})
	}
	return actions, nil
}

// asked tells whether the editor wants actions of a kind: "source" asks for "source.fixAll.plimsoll" too.
func asked(p codeActionParams, kind string) bool {
	if len(p.Context.Only) == 0 {
		return true
	}
	return slices.ContainsFunc(p.Context.Only, func(only string) bool { return only == kind || strings.HasPrefix(kind, only+".") })
}

// silence puts a comment at the end of a finding's last line, where a backslash does not continue it.
func (t text) silence(f lint.Finding) []pysource.Edit {
	line := min(max(f.EndLine-1, 0), len(t.lines)-1)
	at := t.lineEnd(line)
	return []pysource.Edit{{Start: at, End: at, Text: "  # plimsoll: ignore[" + f.Rule + "]"}}
}

func (t text) edit(uri string, edits []pysource.Edit) workspaceEdit {
	var out []textEdit
	for _, e := range edits {
		out = append(out, textEdit{t.span(e.Start, e.End), e.Text})
	}
	return workspaceEdit{map[string][]textEdit{uri: out}}
}

// hover shows the page of the rule whose finding is under the cursor.
func (s *server) hover(p hoverParams) (any, error) {
	d := s.current(p.TextDocument.URI)
	if d == nil {
		return nil, nil
	}
	t := s.textOf(d)
	for _, f := range d.findings {
		at := t.place(f)
		if !at.overlaps(textRange{p.Position, p.Position}) {
			continue
		}
		r, _ := lint.RuleByID(f.Rule)
		return hover{markup{"markdown", "**" + r.ID + " " + r.Name + "** (" + f.Severity.String() + ")\n\n" + f.Message + "\n\n**Fix:** " + f.Fix + "\n\n---\n\n" + lint.Page(f.Rule)}, at}, nil
	}
	return nil, nil
}
