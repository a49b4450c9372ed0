package langserver

import (
	"strings"

	"github.com/plimsoll/plimsoll/internal/code/lint"
	"github.com/plimsoll/plimsoll/internal/code/notebook"
	"github.com/plimsoll/plimsoll/internal/code/pysource"
)

// view is what the editor shows of a document: its text, or the texts of a notebook's cells.
type view struct {
	texts []text
	cells *notebook.Notebook // nil: one text
	raw   bool               // a notebook that is shown as the JSON it is
}

// place is a range of a text.
type place struct {
	uri string
	textRange
}

func (s *server) viewOf(d *document) view {
	s.mu.Lock()
	bytes := s.utf8
	s.mu.Unlock()
	if d.cells == nil {
		return view{texts: []text{newText(d.uri, d.version, d.checked, bytes)}, raw: strings.HasSuffix(d.path, ".ipynb")}
	}
	var v view
	for _, c := range d.cells {
		v.texts = append(v.texts, newText(c.uri, c.version, []byte(c.text), bytes))
	}
	v.cells, _ = notebook.Read(d.checked) // it was written here
	return v
}

// find is the text that an offset of the checked source is in, and the offset there.
func (v view) find(offset int, end bool) (t text, at int, editable bool) {
	if v.cells == nil {
		return v.texts[0], offset, !v.raw
	}
	number, at, editable := v.cells.Offset(offset, end)
	if number < 1 || number > len(v.texts) {
		return text{}, 0, false
	}
	return v.texts[number-1], at, editable
}

// place is the range of a finding; of a notebook that is shown as JSON, the line.
func (v view) place(f lint.Finding) (place, bool) {
	if v.raw {
		t := v.texts[0]
		line := min(max(f.FileLine-1, 0), len(t.lines)-1)
		return place{t.uri, t.span(t.lines[line], t.lineEnd(line))}, true
	}
	t, from, _ := v.find(int(f.Span.Start), false)
	last, to, _ := v.find(int(f.Span.End), true)
	if last.uri != t.uri {
		to = from
	}
	return place{t.uri, t.span(from, max(from, to))}, t.uri != ""
}

// edit says edits of the checked source as edits of what is shown; not, where one touches what is not Python or crosses the end of a cell.
func (v view) edit(edits []pysource.Edit) (workspaceEdit, bool) {
	out := workspaceEdit{map[string][]textEdit{}}
	for _, e := range edits {
		t, from, ok := v.find(e.Start, false)
		last, to, editable := v.find(e.End, e.End > e.Start)
		if !ok || !editable || last.uri != t.uri || to < from {
			return workspaceEdit{}, false
		}
		out.Changes[t.uri] = append(out.Changes[t.uri], textEdit{t.span(from, to), e.Text})
	}
	return out, true
}

// silence puts a comment at the end of a finding's last line, where a backslash does not continue it.
func (v view) silence(f lint.Finding) (workspaceEdit, bool) {
	t, _, editable := v.find(int(f.Span.Start), false)
	if !editable {
		return workspaceEdit{}, false
	}
	at := t.lineEnd(min(max(f.EndLine-1, 0), len(t.lines)-1))
	return workspaceEdit{map[string][]textEdit{t.uri: {{t.span(at, at), "  # plimsoll: ignore[" + f.Rule + "]"}}}}, true
}
