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

// text is a text that the editor shows, with what is needed to speak of places in it.
type text struct {
	uri     string
	version int
	src     []byte
	lines   []int // where each line starts
	utf8    bool
}

func newText(uri string, version int, src []byte, utf8 bool) text {
	lines := []int{0}
	for i, c := range src {
		if c == '\n' {
			lines = append(lines, i+1)
		}
	}
	return text{uri, version, src, lines, utf8}
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

// offset is where a position is; one beyond the end of its line is the end of the line.
func (t text) offset(p position) int {
	if p.Line < 0 {
		return 0
	}
	if p.Line >= len(t.lines) {
		return len(t.src)
	}
	at, end := t.lines[p.Line], t.lineEnd(p.Line)
	for n := 0; at < end && n < p.Character; {
		_, size := utf8.DecodeRune(t.src[at:end])
		n += t.units(t.src[at : at+size])
		at += size
	}
	return at
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

func (p place) diagnostic(f lint.Finding) diagnostic {
	d := diagnostic{Range: p.textRange, Severity: severityInformation, Code: f.Rule, Source: "plimsoll", Message: f.Message + "\nfix: " + f.Fix}
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

// diagnostics are those of a document, or of each cell of a notebook, the cells without any too.
func (s *server) diagnostics(d *document) []publishDiagnosticsParams {
	v := s.viewOf(d)
	var out []publishDiagnosticsParams
	at := map[string]int{}
	for i, t := range v.texts {
		at[t.uri] = i
		out = append(out, publishDiagnosticsParams{t.uri, t.version, []diagnostic{}})
	}
	for _, f := range d.findings {
		if p, ok := v.place(f); ok {
			own := &out[at[p.uri]]
			own.Diagnostics = append(own.Diagnostics, p.diagnostic(f))
		}
	}
	return out
}

// codeActions offers the repairs of the findings in a range, a comment that silences each, and all safe repairs at once.
func (s *server) codeActions(p codeActionParams) (any, error) {
	actions := []codeAction{}
	d := s.current(s.holder(p.TextDocument.URI))
	if d == nil {
		return actions, nil
	}
	v := s.viewOf(d)
	offer := func(title, kind string, about []diagnostic, preferred bool, edits []pysource.Edit) {
		if edit, ok := v.edit(edits); ok {
			actions = append(actions, codeAction{title, kind, about, preferred, edit})
		}
	}
	for _, f := range d.findings {
		at, ok := v.place(f)
		if !ok || at.uri != p.TextDocument.URI || !at.overlaps(p.Range) || !asked(p, kindQuickFix) {
			continue
		}
		about := []diagnostic{at.diagnostic(f)}
		if f.Repair != nil {
			title := f.Repair.Title
			if !f.Repair.Safe {
				title += " (review it: it may change what the program does)"
			}
			offer(title, kindQuickFix, about, f.Repair.Safe, f.Repair.Edits)
		}
		if silenced, ok := v.silence(f); ok && f.Rule != lint.UnusedRule && f.Rule != lint.SyntaxRule {
			actions = append(actions, codeAction{"Silence " + f.Rule + " on this line", kindQuickFix, about, false, silenced})
		}
	}
	if edits, n := repair.Edits(d.findings, false); n > 0 && asked(p, kindFixAll) {
		offer("Apply all safe fixes", kindFixAll, nil, false, edits)
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

// hover shows the page of the rule whose finding is under the cursor.
func (s *server) hover(p hoverParams) (any, error) {
	d := s.current(s.holder(p.TextDocument.URI))
	if d == nil {
		return nil, nil
	}
	v := s.viewOf(d)
	for _, f := range d.findings {
		at, ok := v.place(f)
		if !ok || at.uri != p.TextDocument.URI || !at.overlaps(textRange{p.Position, p.Position}) {
			continue
		}
		r, _ := lint.RuleByID(f.Rule)
		return hover{markup{"markdown", "**" + r.ID + " " + r.Name + "** (" + f.Severity.String() + ")\n\n" + f.Message + "\n\n**Fix:** " + f.Fix + "\n\n---\n\n" + lint.Page(f.Rule)}, at.textRange}, nil
	}
	return nil, nil
}
