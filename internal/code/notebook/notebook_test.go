package notebook_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/plimsoll/plimsoll/internal/code/notebook"
	"github.com/plimsoll/plimsoll/internal/code/pysource"
)

func source(t *testing.T, text string) string {
	t.Helper()
	nb, err := notebook.Read([]byte(text))
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return string(nb.Source)
}

// cellOf is a notebook with one code cell.
func cellOf(t testing.TB, code string) string {
	t.Helper()
	text, err := json.Marshal(map[string]any{"cells": []any{map[string]any{"cell_type": "code", "source": code}}})
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestLinesForIPythonAreLeftOut(t *testing.T) {
	t.Parallel()
	for code, want := range map[string]string{
		"%matplotlib inline\nx = 1":                              "pass\nx = 1\n",
		"!pip install torch \\\n    --upgrade\nx = 1":            "pass\n\nx = 1\n",
		"%run train.py \\\n  --lr 1 \\\n  --bs 2\nx = 1":         "pass\n\n\nx = 1\n",
		"if x:\n    !ls\n    y = 1":                              "if x:\n    pass\n    y = 1\n",
		"files = !ls\nenv = %env HOME":                           "files = None\nenv = None\n",
		"model?\n?model\nmodel.forward??\n%time?":                "pass\npass\npass\npass\n",
		"%time out = model(x)":                                   "out = model(x)\n",
		"%timeit model(x)":                                       "pass\n",
		"%time out = model(x,\n                  y)\n%who":       "out = model(x,\n                  y)\npass\n",
		"r = %timeit -o f(x) \\\n  -n 3\nx = 1":                  "r = None\n\nx = 1\n",
		"for x in y:\n    %run a.py \\\n        %env\n    z = 1": "for x in y:\n    pass\n\n    z = 1\n",
		"%cd data \\\n% b\nx = 7 \\\n  % 2":                      "pass\n\nx = 7 \\\n  % 2\n",
		"pip install torch":                                      "pass\n",
		"rm -r $folder":                                          "pass\n",
		"ls ../../\n":                                            "pass\n\n",
		"ls = [1]":                                               "ls = [1]\n",
		"cat, dog = f()":                                         "cat, dog = f()\n",
		"ls":                                                     "ls\n",
		"cd data":                                                "pass\n",
		"print('%d'\n      % n)":                                 "print('%d'\n      % n)\n",
		"x = (a\n% b)":                                           "x = (a\n% b)\n",
		"x = a \\\n% b\n%who":                                    "x = a \\\n% b\npass\n",
		"s = '''\n!not a command\n%nor this\n'''\n!ls":           "s = '''\n!not a command\n%nor this\n'''\npass\n",
		"s = \"(\"  # [\n%who":                                   "s = \"(\"  # [\npass\n",
		"ok = x != 1\nlast = x if x else y":                      "ok = x != 1\nlast = x if x else y\n",
		"  x = 1\n  if x:\n      y = 2\nz = 3":                   "x = 1\nif x:\n    y = 2\nz = 3\n",
		"\n \n  !ls\n  x = 1":                                    "\n \npass\nx = 1\n",
		"%%time\nout = model(x)":                                 "\nout = model(x)\n",
		"\n%%capture log\nout = model(x)":                        "\n\nout = model(x)\n",
		"%%bash\necho hello":                                     "",
		"%%writefile a.py\nimport torch":                         "",
		"%%html\n<b>x</b>":                                       "",
		"def f(x):\n    return x\n\nassert f(1) == 1, 'what?'":   "def f(x):\n    return x\n\nassert f(1) == 1, 'what?'\n",
	} {
		if got := source(t, cellOf(t, code)); got != want {
			t.Errorf("%q\n want %q\n  got %q", code, want, got)
		}
	}
}

func TestOtherLanguagesAreNotPython(t *testing.T) {
	t.Parallel()
	cell := `{"cell_type":"code","source":"x <- 1"}`
	for text, python := range map[string]bool{
		`{"cells":[` + cell + `]}`: true,
		`{"cells":[` + cell + `],"metadata":{"kernelspec":{"name":"ir","language":"R"}}}`:                                           false,
		`{"metadata":{"language_info":{"name":"julia"}},"cells":[` + cell + `]}`:                                                    false,
		`{"metadata":{"language_info":{"name":"python"},"kernelspec":{"language":"python"}},"cells":[` + cell + `]}`:                true,
		`{"cells":[{"cell_type":"code","metadata":{"vscode":{"languageId":"html"}},"source":"x <- 1"}]}`:                            false,
		`{"cells":[{"cell_type":"code","metadata":{"kernel":"Python3"},"source":"x"}],"metadata":{"language_info":{"name":"sos"}}}`: true,
		`{"cells":[{"cell_type":"code","metadata":{"kernel":"R"},"source":"x"}],"metadata":{"language_info":{"name":"sos"}}}`:       false,
		`{"cells":[{"cell_type":"code","source":"#@title Settings\n%%writefile config\n[model]\nsize: 4"}]}`:                        false,
		`{"cells":[{"cell_type":"raw","source":"x"}]}`:                                                                              false,
		`{"worksheets":[{"cells":[{"cell_type":"code","language":"python","input":["x = 1\n","y = 2"]}]}]}`:                         true,
	} {
		if got := source(t, text) != ""; got != python {
			t.Errorf("%s: read as Python: %v", text, got)
		}
	}
}

func TestWhatIsNoNotebookIsRefused(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "{", "[]", "{}", `{"cells"`, `{"cells":[{"cell_type":"code","source":["x`, `"cells"`, "null", "import torch"} {
		if _, err := notebook.Read([]byte(text)); err == nil {
			t.Errorf("%q was read as a notebook", text)
		}
	}
}

const pretty = `{
 "cells": [
  {
   "cell_type": "markdown",
   "source": "# \u00dcber"
  },
  {
   "cell_type": "code",
   "execution_count": 7,
   "outputs": [{"data": {"text/plain": ["source"]}}],
   "source": [
    "%matplotlib inline\n",
    "import torch\n",
    "with torch.cuda.amp.autocast():\n",
    "    print(\"größe\")"
   ]
  },
  {   "cell_type":"code","source":"x = \"a\"\ny = 2" }
 ],
 "nbformat": 4
}
`

// edit replaces a piece of the joined source.
func edit(t *testing.T, nb *notebook.Notebook, old, text string) pysource.Edit {
	t.Helper()
	at := bytes.Index(nb.Source, []byte(old))
	if at < 0 {
		t.Fatalf("%q is not in %q", old, nb.Source)
	}
	return pysource.Edit{Start: at, End: at + len(old), Text: text}
}

func TestEditsKeepTheFormattingOfTheJSON(t *testing.T) {
	t.Parallel()
	nb, err := notebook.Read([]byte(pretty))
	if err != nil {
		t.Fatal(err)
	}
	got, err := nb.Apply([]pysource.Edit{
		edit(t, nb, "torch.cuda.amp.autocast()", `torch.amp.autocast("cuda")`),
		edit(t, nb, "import torch\n", "import torch\nimport os\n"),
		edit(t, nb, "y = 2", "y = 3\nz = 4"),
	})
	if err != nil {
		t.Fatal(err)
	}
	want := strings.NewReplacer(
		`    "import torch\n",`, "    \"import torch\\n\",\n    \"import os\\n\",",
		`"with torch.cuda.amp.autocast():\n"`, `"with torch.amp.autocast(\"cuda\"):\n"`,
		`y = 2"`, `y = 3\nz = 4"`,
	).Replace(pretty)
	if string(got) != want {
		t.Errorf("got\n%s", got)
	}
}

func TestALineCanGo(t *testing.T) {
	t.Parallel()
	nb, err := notebook.Read([]byte(pretty))
	if err != nil {
		t.Fatal(err)
	}
	got, err := nb.Apply([]pysource.Edit{edit(t, nb, "import torch\n", "")})
	if want := strings.Replace(pretty, "    \"import torch\\n\",\n", "", 1); err != nil || string(got) != want {
		t.Errorf("%v\n%s", err, got)
	}
}

func TestEditsStayWithinACellAndItsPython(t *testing.T) {
	t.Parallel()
	nb, err := notebook.Read([]byte(pretty))
	if err != nil {
		t.Fatal(err)
	}
	for _, old := range []string{"pass", "print(\"größe\")\nx = \"a\""} {
		if got, err := nb.Apply([]pysource.Edit{edit(t, nb, old, "None")}); err == nil {
			t.Errorf("an edit of %q was made:\n%s", old, got)
		}
	}
}

// The joined source after an edit in the JSON is the joined source with the edit made.
func TestAnEditInTheJSONIsTheEditInTheSource(t *testing.T) {
	t.Parallel()
	word := rapid.SampledFrom([]string{"x = 1", "y = \"é\\n\"", "", "\tpass", "z = '\\u0041'", "print(x, y)", "# \"quoted\" \\ comment"})
	rapid.Check(t, func(t *rapid.T) {
		var cells []any
		indented := false // as a whole: IPython takes the indentation off, and nothing is written into such a cell
		for range rapid.IntRange(1, 3).Draw(t, "cells") {
			code := strings.Join(rapid.SliceOfN(word, 1, 4).Draw(t, "lines"), "\n")
			indented = indented || strings.HasPrefix(strings.TrimLeft(code, "\n"), "\t")
			var src any = code
			if rapid.Bool().Draw(t, "list") {
				src = strings.SplitAfter(code, "\n")
			}
			cells = append(cells, map[string]any{"cell_type": "code", "source": src})
		}
		raw, err := json.MarshalIndent(map[string]any{"cells": cells}, "", " ")
		if err != nil {
			t.Fatal(err)
		}
		nb, err := notebook.Read(raw)
		if err != nil {
			t.Fatal(err)
		}
		start := rapid.IntRange(0, len(nb.Source)).Draw(t, "start")
		e := pysource.Edit{Start: start, End: rapid.IntRange(start, min(start+6, len(nb.Source))).Draw(t, "end"), Text: rapid.SampledFrom([]string{"", "q", "a\nb", "\"", "ü"}).Draw(t, "text")}
		if bytes.HasSuffix(nb.Source[:e.End], []byte("\n")) || !json.Valid(raw) || bytes.ContainsRune(nb.Source[e.Start:e.End], '\n') || !utf8Edges(nb.Source, e) {
			return // a line's end may be that of a cell, which is no character of it
		}
		changed, err := nb.Apply([]pysource.Edit{e})
		if indented && errors.Is(err, notebook.ErrNotEditable) {
			return
		}
		if err != nil {
			t.Fatalf("%v: %+v in %q", err, e, nb.Source)
		}
		again, err := notebook.Read(changed)
		if err != nil {
			t.Fatal(err)
		}
		if indentedCell(t, changed) {
			return // the edit has indented a whole cell, and reading takes that off again
		}
		if want := pysource.Apply(nb.Source, []pysource.Edit{e}); !bytes.Equal(again.Source, want) {
			t.Fatalf("%+v\n want %q\n  got %q\n%s", e, want, again.Source, changed)
		}
	})
}

// indentedCell tells whether the first line with code of some cell is indented.
func indentedCell(t *rapid.T, raw []byte) bool {
	var nb struct{ Cells []struct{ Source any } }
	if err := json.Unmarshal(raw, &nb); err != nil {
		t.Fatal(err)
	}
	return slices.ContainsFunc(nb.Cells, func(c struct{ Source any }) bool {
		text, whole := c.Source.(string)
		if !whole {
			for _, line := range c.Source.([]any) {
				text += line.(string)
			}
		}
		text = strings.TrimLeft(text, "\n")
		return strings.HasPrefix(text, " ") || strings.HasPrefix(text, "\t")
	})
}

func utf8Edges(src []byte, e pysource.Edit) bool {
	start := func(i int) bool { return i >= len(src) || src[i]&0xC0 != 0x80 }
	return start(e.Start) && start(e.End)
}

func FuzzRead(f *testing.F) {
	f.Add([]byte(pretty))
	f.Add([]byte(`{"worksheets":[{"cells":[{"cell_type":"code","input":["x\n","y"]}]}]}`))
	f.Add([]byte(`{"cells":[{"cell_type":"code","source":["a\ud800", "\u00e9"]}],"cells":[]}`))
	f.Fuzz(func(t *testing.T, src []byte) {
		nb, err := notebook.Read(src)
		if err != nil {
			return
		}
		for i := range bytes.Count(nb.Source, []byte("\n")) {
			if cell, line := nb.Place(i + 1); cell < 1 || line < 1 || nb.FileLine(i+1) < 1 {
				t.Fatalf("line %d stands at %d:%d", i+1, cell, line)
			}
		}
		if out, err := nb.Apply([]pysource.Edit{{Text: "x"}}); err == nil {
			if _, err := notebook.Read(out); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
		}
	})
}
