package langserver_test

import (
	"path/filepath"
	"testing"
)

func (e *editor) openNotebook(uri string, texts map[string]string, order ...string) {
	var cells, documents []any
	for _, name := range order {
		cells = append(cells, map[string]any{"kind": 2, "document": name})
		documents = append(documents, map[string]any{"uri": name, "languageId": "python", "version": 1, "text": texts[name]})
	}
	e.notify("notebookDocument/didOpen", map[string]any{
		"notebookDocument":  map[string]any{"uri": uri, "notebookType": "jupyter-notebook", "version": 1, "cells": cells},
		"cellTextDocuments": documents,
	})
}

func (e *editor) changeNotebook(uri string, version int, cells map[string]any) {
	e.notify("notebookDocument/didChange", map[string]any{"notebookDocument": map[string]any{"uri": uri, "version": version}, "change": map[string]any{"cells": cells}})
}

func TestCellsOfANotebookAreCheckedTogether(t *testing.T) {
	t.Parallel()
	e := start(t)
	uri := "file://" + filepath.ToSlash(filepath.Join(t.TempDir(), "train.ipynb"))
	e.openNotebook(uri, map[string]string{
		"cell:a": "import torch\ntotal = 0",
		"cell:b": "%time große = '🙂'\nfor x, y in loader:\n    a = '🙂'; total += criterion(model(x), y)\nprint(total)",
	}, "cell:a", "cell:b")
	if p := e.until("cell:a", 1); len(p.Diagnostics) != 0 {
		t.Errorf("%+v", p)
	}
	if p := e.until("cell:b", 1); len(p.Diagnostics) != 1 || p.Diagnostics[0].Code != "LM001" || p.Diagnostics[0].Range.Start != (place{2, 14}) {
		t.Fatalf("%+v", p)
	}

	// Typed behind the call, in the units of the protocol: a smiley counts two.
	at := map[string]any{"line": 2, "character": 45}
	e.changeNotebook(uri, 2, map[string]any{"textContent": []any{map[string]any{"document": map[string]any{"uri": "cell:b", "version": 2},
		"changes": []any{map[string]any{"range": map[string]any{"start": at, "end": at}, "text": ".item()"}}}}})
	if p := e.until("cell:b", 2); len(p.Diagnostics) != 0 {
		t.Fatalf("the mistake is corrected, and still: %+v", p)
	}

	// A cell is put before the last, which moves behind it; then the new one goes.
	structure := func(start, gone int, cells, opened []any) map[string]any {
		return map[string]any{"structure": map[string]any{"array": map[string]any{"start": start, "deleteCount": gone, "cells": cells}, "didOpen": opened}}
	}
	e.changeNotebook(uri, 3, structure(1, 0, []any{map[string]any{"kind": 2, "document": "cell:c"}},
		[]any{map[string]any{"uri": "cell:c", "languageId": "python", "version": 7, "text": "for x, y in loader:\n    total += criterion(model(x), y)\nprint(total)"}}))
	if p := e.until("cell:c", 7); len(p.Diagnostics) != 1 || p.Diagnostics[0].Range.Start != (place{1, 4}) {
		t.Errorf("%+v", p)
	}
	e.changeNotebook(uri, 4, structure(9, 1, nil, nil)) // there is none: the notebook stays as it is
	e.changeNotebook(uri, 5, structure(1, 1, nil, nil))
	if p := e.until("cell:c", 0); len(p.Diagnostics) != 0 {
		t.Errorf("a cell that is gone: %+v", p)
	}
	e.notify("notebookDocument/didClose", map[string]any{"notebookDocument": map[string]any{"uri": uri}, "cellTextDocuments": []any{}})
	if p := e.until("cell:b", 0); len(p.Diagnostics) != 0 {
		t.Errorf("a notebook that is closed: %+v", p)
	}
}

func TestCellsOfAnotherLanguageAreNotPython(t *testing.T) {
	t.Parallel()
	e := start(t)
	e.notify("notebookDocument/didOpen", map[string]any{
		"notebookDocument": map[string]any{"uri": "untitled:Untitled-1", "version": 1, "cells": []any{map[string]any{"kind": 1, "document": "m"}, map[string]any{"kind": 2, "document": "r"}, map[string]any{"kind": 2, "document": "p"}}},
		"cellTextDocuments": []any{
			map[string]any{"uri": "m", "languageId": "markdown", "version": 1, "text": "# for x in"},
			map[string]any{"uri": "r", "languageId": "r", "version": 1, "text": "x <- (1"},
			map[string]any{"uri": "p", "languageId": "python", "version": 1, "text": "import torch\ntotal = 0\nfor x, y in loader:\n    total += criterion(model(x), y)\nprint(total)"},
		},
	})
	for _, cell := range []struct {
		uri  string
		want int
	}{{"m", 0}, {"r", 0}, {"p", 1}} {
		if p := e.until(cell.uri, 1); len(p.Diagnostics) != cell.want {
			t.Errorf("%+v", p)
		}
	}
}
