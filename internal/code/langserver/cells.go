package langserver

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/sourcegraph/jsonrpc2"
)

// cell is a cell of a notebook that the editor has open.
type cell struct {
	uri, language string
	code          bool
	version       int
	text          string
}

// openNotebook takes a notebook as the cells that the editor shows.
func (s *server) openNotebook(p didOpenNotebookParams) (any, error) {
	cells := []cell{}
	for _, c := range p.Notebook.Cells {
		cells = append(cells, cell{uri: c.Document, code: c.Kind == 2})
	}
	fill(cells, p.Cells)
	return nil, s.holdNotebook(p.Notebook, cells)
}

// fill puts texts into the cells they are of.
func fill(cells []cell, texts []textDocument) {
	byURI := map[string]textDocument{}
	for _, t := range texts {
		byURI[t.URI] = t
	}
	for i := range cells {
		if t, ok := byURI[cells[i].uri]; ok {
			cells[i].language, cells[i].version, cells[i].text = t.Language, t.Version, t.Text
		}
	}
}

// holdNotebook keeps a notebook under the JSON that its cells would be saved as, less everything that is not looked at.
func (s *server) holdNotebook(n notebookDocument, cells []cell) error {
	type saved struct {
		Type   string `json:"cell_type"`
		Source string `json:"source"`
	}
	list := make([]saved, len(cells))
	for i, c := range cells {
		list[i] = saved{"raw", c.text}
		if c.code && c.language == "python" {
			list[i].Type = "code"
		}
	}
	src, err := json.Marshal(map[string]any{"cells": list, "nbformat": 4})
	if err != nil {
		return err
	}
	path := pathOf(n.URI)
	if !strings.HasSuffix(path, ".ipynb") {
		path += ".ipynb"
	}
	s.keep(&document{uri: n.URI, path: path, version: n.Version, text: src, cells: cells})
	return nil
}

// changeNotebook takes cells that came, went or moved, and changes of their texts.
func (s *server) changeNotebook(p didChangeNotebookParams) (any, error) {
	s.mu.Lock()
	d := s.open[p.Notebook.URI]
	s.mu.Unlock()
	if d == nil || d.cells == nil {
		return nil, nil
	}
	cells := slices.Clone(d.cells)
	if st := p.Change.Cells.Structure; st != nil {
		from, to := st.Array.Start, st.Array.Start+st.Array.DeleteCount
		if from < 0 || to < from || to > len(cells) {
			return nil, &jsonrpc2.Error{Code: jsonrpc2.CodeInvalidParams, Message: "notebookDocument/didChange: there are no such cells"}
		}
		cells = slices.Replace(cells, from, to, moved(d.cells, st.Array.Cells)...)
		fill(cells, st.DidOpen)
	}
	for _, c := range p.Change.Cells.Data {
		if i := cellAt(cells, c.Document); i >= 0 {
			cells[i].code = c.Kind == 2
		}
	}
	for _, c := range p.Change.Cells.TextContent {
		if i := cellAt(cells, c.Document.URI); i >= 0 {
			cells[i].version = c.Document.Version
			for _, change := range c.Changes {
				cells[i].text = s.changed(cells[i].text, change)
			}
		}
	}
	if err := s.holdNotebook(p.Notebook, cells); err != nil {
		return nil, err
	}
	return nil, s.clearGone(d.cells, cells)
}

// moved makes cells that are put somewhere, with their texts where they were in the notebook before.
func moved(before []cell, put []notebookCell) []cell {
	var out []cell
	for _, c := range put {
		made := cell{uri: c.Document}
		if i := cellAt(before, c.Document); i >= 0 {
			made = before[i]
		}
		made.code = c.Kind == 2
		out = append(out, made)
	}
	return out
}

func cellAt(cells []cell, uri string) int {
	return slices.IndexFunc(cells, func(c cell) bool { return c.uri == uri })
}

// changed is a text after one change of it.
func (s *server) changed(old string, c contentChange) string {
	if c.Range == nil {
		return c.Text
	}
	s.mu.Lock()
	t := newText("", 0, []byte(old), s.utf8)
	s.mu.Unlock()
	from := t.offset(c.Range.Start)
	return old[:from] + c.Text + old[max(from, t.offset(c.Range.End)):]
}

// clearGone takes away the diagnostics of cells that are no longer there.
func (s *server) clearGone(before, after []cell) error {
	for _, c := range before {
		if cellAt(after, c.uri) < 0 {
			if err := s.clear(c.uri); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *server) closeNotebook(p notebookParams) (any, error) {
	s.mu.Lock()
	d := s.open[p.Notebook.URI]
	delete(s.open, p.Notebook.URI)
	s.mu.Unlock()
	s.recheck()
	if d == nil {
		return nil, nil
	}
	return nil, s.clearGone(d.cells, nil)
}

// holder is the URI of the document that a text belongs to: that of a cell's notebook, else its own.
func (s *server) holder(uri string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, d := range s.open {
		if cellAt(d.cells, uri) >= 0 {
			return d.uri
		}
	}
	return uri
}
