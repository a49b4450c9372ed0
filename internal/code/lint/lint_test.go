package lint_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/plimsoll/plimsoll/internal/code/flow"
	"github.com/plimsoll/plimsoll/internal/code/lint"
)

const leaky = `import torch
total = 0
for x, y in loader:
    total += criterion(model(x), y)
print(total)
`

func ids(findings []lint.Finding) string {
	var out []string
	for _, f := range findings {
		out = append(out, fmt.Sprintf("%s:%d", f.Rule, f.Line))
	}
	return strings.Join(out, " ")
}

func TestACommentAnswersAFinding(t *testing.T) {
	t.Parallel()
	line := "    total += criterion(model(x), y)"
	for comment, want := range map[string]string{
		line: "LM001:4",
		line + "  # plimsoll: ignore[LM001] summed for the log":            "",
		line + "  # plimsoll: ignore[LM002] another rule":                  "LM001:4 LM099:4",
		line + "  # plimsoll: ignore[LM002, LM001] both":                   "LM099:4",
		line + "  # plimsoll: ignore[graph-retained-across-iterations]":    "",
		line + "  # plimsoll: ignore[LM00] a group of rules":               "",
		line + "  # plimsoll: ignore[LM777] no such rule":                  "LM001:4 LM099:4",
		line + "  # noqa: LM001":                                           "",
		line + "  # NOQA:E501,LM001 and why":                               "",
		line + "  # noqa: E501 LM001":                                      "",
		line + "  # noqa: E501":                                            "LM001:4",
		line + "  # noqa: LM003, E501":                                     "LM001:4 LM099:4",
		line + "  # noqa":                                                  "",
		line + "  # type: ignore  # noqa: LM001":                           "",
		line + "\n    print(x)  # noqa":                                    "LM001:4",
		line + "\n    print(x)  # plimsoll: ignore":                        "LM001:4 LM099:5",
		line + "  # plimsoll: ignored by whom?":                            "LM001:4",
		line + "  # plimsoll: ignore":                                      "",
		line + "  # plimsoll: ignore[LM001":                                "LM001:4",
		"    # plimsoll: ignore[LM001] the line below\n" + line:            "",
		line + "\n    # plimsoll: ignore[LM001] too late":                  "LM001:4 LM099:5",
		line + "\n# plimsoll: ignore-file[LM001] generated":                "",
		line + "  # ignore[LM001] without the name of the tool":            "LM001:4",
		line + "\n# plimsoll: ignore-file[LM003] another rule of the file": "LM001:4 LM099:5",
	} {
		if got := ids(lint.Source("t.py", []byte(strings.Replace(leaky, line, comment, 1)), lint.Options{})); got != want {
			t.Errorf("%s\n want %q\n  got %q", comment, want, got)
		}
	}
}

func TestRulesAreSelectedByIdPrefixAndName(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		opts lint.Options
		want string
	}{
		{lint.Options{}, "LM001:4"},
		{lint.Options{Select: []string{"LM00"}}, "LM001:4"},
		{lint.Options{Select: []string{"graph-retained-across-iterations"}}, "LM001:4"},
		{lint.Options{Select: []string{"LM003"}}, ""},
		{lint.Options{Ignore: []string{"LM001"}}, ""},
		{lint.Options{Select: []string{"ALL"}, Ignore: []string{"LM0"}}, ""},
	} {
		if got := ids(lint.Source("t.py", []byte(leaky), c.opts)); got != c.want {
			t.Errorf("%+v: want %q, got %q", c.opts, c.want, got)
		}
	}
}

func TestALineThatIsNotPythonIsReportedAndTheRestIsChecked(t *testing.T) {
	t.Parallel()
	got := ids(lint.Source("t.py", []byte("x = = 1\n"+leaky), lint.Options{}))
	if got != "LM000:1 LM001:5" {
		t.Errorf("got %q", got)
	}
}

func TestNotebookFindingsNameTheirCell(t *testing.T) {
	t.Parallel()
	nb := map[string]any{"cells": []any{
		map[string]any{"cell_type": "markdown", "source": "# Title"},
		map[string]any{"cell_type": "code", "source": []string{"%matplotlib inline\n", "!pip install torch \\\n", "    --upgrade\n", "import torch"}},
		map[string]any{"cell_type": "code", "source": "%%bash\necho not python"},
		map[string]any{"cell_type": "code", "source": strings.TrimPrefix(leaky, "import torch\n")},
	}}
	src, err := json.Marshal(nb)
	if err != nil {
		t.Fatal(err)
	}
	found, err := lint.Notebook("train.ipynb", src, lint.Options{})
	if err != nil || len(found) != 1 || found[0].Cell != 4 || found[0].Line != 3 {
		t.Errorf("got %+v, %v", found, err)
	}
	if _, err := lint.Notebook("broken.ipynb", []byte("{"), lint.Options{}); err == nil {
		t.Error("a broken notebook was read without a word")
	}
}

func TestWhatACellShowsIsKept(t *testing.T) {
	t.Parallel()
	for last, kept := range map[string]bool{
		"loss":                            true,
		"out":                             true,
		"model(x)":                        true,
		"out  # a look at it; in passing": true,
		"loss;":                           false,
		"loss.item()":                     false,
		"loss.backward()\nloss":           false,
		"with torch.no_grad():\n    quiet = model(x)\nquiet": false,
		"print(loss)":        false,
		"x":                  false,
		"loss\nprint(1)":     false,
		"def f():\n    loss": false,
	} {
		found := shownBy(t, last, nil)
		if len(found) > 0 != kept || kept && (found[0].Cell != 2 || found[0].Rule != lint.OutputRule || found[0].Severity != lint.Note) {
			t.Errorf("%q: %+v", last, found)
		}
	}
}

// shownBy is what is found in a notebook whose second cell ends with a line and has these outputs.
func shownBy(t *testing.T, last string, outputs []any) []lint.Finding {
	t.Helper()
	nb, err := json.Marshal(map[string]any{"cells": []any{
		map[string]any{"cell_type": "code", "source": "import torch\nmodel = torch.nn.Linear(2, 2).cuda()\ncriterion = torch.nn.MSELoss()"},
		map[string]any{"cell_type": "code", "source": "out = model(x)\nloss = criterion(out, y)\n" + last, "outputs": outputs},
		map[string]any{"cell_type": "code", "source": "print(1)"},
	}})
	if err != nil {
		t.Fatal(err)
	}
	found, err := lint.Notebook("train.ipynb", nb, lint.Options{Select: []string{lint.OutputRule}})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// What a cell showed when it ran decides: an error leaves nothing behind, and a tensor with a graph is printed with it.
func TestWhatACellShowedDecides(t *testing.T) {
	t.Parallel()
	result := func(text any) []any {
		return []any{map[string]any{"output_type": "execute_result", "data": map[string]any{"text/plain": text}}}
	}
	for name, c := range map[string]struct {
		outputs []any
		want    string
	}{
		"an error":            {[]any{map[string]any{"output_type": "error", "ename": "RuntimeError", "traceback": []string{"mat1 and mat2"}}}, ""},
		"a tensor of data":    {result("tensor([1., 2.])"), ""},
		"a graph":             {result([]string{"tensor([[1.]], device='cuda:0',\n", "       grad_fn=<AddmmBackward0>)"}), "warning"},
		"numbers on the CPU":  {result([]string{"tensor([[1.]],\n", "       grad_fn=<AddmmBackward0>)"}), "note"},
		"a long tensor":       {result([]string{"tensor([0.1000, 0.1000, 0.1000,  ..., 0.1000],\n", "       grad_fn=<AddmmBackward0>)"}), "warning"},
		"many numbers":        {result([]string{"tensor([" + strings.Repeat("0.1000, ", 200) + "0.1000],\n", "       grad_fn=<AddmmBackward0>)"}), "warning"},
		"printed, then shown": {append([]any{map[string]any{"output_type": "stream", "text": "grad_fn"}}, result("tensor(1.)")...), ""},
		"nothing kept":        {nil, "note"},
	} {
		got := ""
		for _, f := range shownBy(t, "out", c.outputs) {
			got = f.Severity.String()
		}
		if got != c.want {
			t.Errorf("%s: %q, not %q", name, got, c.want)
		}
	}
}

// notebookOf is a notebook with these code cells.
func notebookOf(t *testing.T, cells ...string) []byte {
	t.Helper()
	var list []any
	for _, c := range cells {
		list = append(list, map[string]any{"cell_type": "code", "source": c})
	}
	nb, err := json.Marshal(map[string]any{"cells": list})
	if err != nil {
		t.Fatal(err)
	}
	return nb
}

func TestTheCellThatIsNotPythonIsNamed(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		cells []string
		want  string
	}{
		"indented as a whole":          {[]string{"import torch", "  x = 1\n  for i in y:\n      print(i)"}, ""},
		"a body that is missing":       {[]string{"import torch", "class A:\n    def f(self):", "x = 1"}, "2 warning"},
		"a bracket that is not closed": {[]string{"import torch", "x = f(1,", "y = 2"}, "2 warning"},
		"a place to fill in":           {[]string{"import torch", "loss = <YOUR CODE>"}, "2 note"},
		"a body to fill in":            {[]string{"def f(x):\n    #\n    # your code here\n    #\n"}, "1 note"},
		"a task in a body":             {[]string{"def f(x):\n    # compute the norm of x\n\ny = f(2)"}, "1 note"},
		"to do":                        {[]string{"for x in y:\n    # TODO\nprint(x)"}, "1 note"},
		"a body commented out":         {[]string{"for x in y:\n    # print(x)\nprint(x)"}, "1 warning"},
		"Python 2 with dots":           {[]string{"print 'loading....'  # TODO: your text here"}, "1 warning"},
		"four dots":                    {[]string{"norm = ...."}, "1 note"},
		"a question mark":              {[]string{"layer = Conv2d(8, 8, padding=?)"}, "1 note"},
		"a key to fill in":             {[]string{"environ[\"KEY\"] = # your key here"}, "1 note"},
		"Python 2":                     {[]string{"import torch", "print 'x'"}, "2 warning"},
	} {
		found, err := lint.Notebook("a.ipynb", notebookOf(t, c.cells...), lint.Options{Select: []string{lint.SyntaxRule}})
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		for _, f := range found {
			got = fmt.Sprintf("%d %s", f.Cell, f.Severity)
		}
		if got != c.want {
			t.Errorf("%s: %q, not %q (%+v)", name, got, c.want, found)
		}
	}
}

// A function that gives a wrapped model is judged by who calls it.
func TestAWrapperIsJudgedByWhoTrainsIt(t *testing.T) {
	t.Parallel()
	files := map[string][]byte{
		"factory.py": []byte("import torch\nfrom torch import nn\ndef make(path):\n    net = build(path)\n    return nn.DataParallel(net)\n"),
		"train.py":   []byte("import torch\nfrom other import load\nfor x, y in loader:\n    criterion(model(x), y).backward()\n    optimizer.step()\n    optimizer.zero_grad()\n"),
		"score.py":   []byte("import torch\nfrom factory import make\nnet = make('a')\nprint(score(net))\n"),
	}
	lookup := func(module string) *flow.Exports {
		if module == "factory" {
			return lint.Exports("factory.py", files["factory.py"], nil)
		}
		return nil
	}
	for caller, want := range map[string]string{"score.py": "note", "train.py": "warning"} {
		var reports []*lint.Report
		for _, path := range []string{"factory.py", "train.py", "score.py"} {
			src := files[path]
			if path == caller && caller == "train.py" {
				src = append([]byte("from factory import make\nmodel = make('a')\n"), src...)
			}
			if path == "score.py" && caller != path {
				src = []byte("import torch\n")
			}
			reports = append(reports, lint.Check(path, src, lookup))
		}
		found := reports[0].Choose(lint.Options{Project: lint.Survey(reports)})
		if len(found) != 1 || found[0].Rule != "LM020" || found[0].Severity.String() != want {
			t.Errorf("called by %s: %+v", caller, found)
		}
	}
}

func TestAScriptThatTestsByItsNameTrainsNothing(t *testing.T) {
	t.Parallel()
	program := []byte("import torch\nfrom torch import nn\nmodel = nn.DataParallel(Net())\ntrainer = GanTrainer(model=model)\ntrainer.test()\n")
	for path, want := range map[string]string{"projects/age_test.py": "note", "projects/age_train.py": "warning", "demo.py": "note"} {
		found := lint.Source(path, program, lint.Options{})
		if len(found) != 1 || found[0].Rule != "LM020" || found[0].Severity.String() != want {
			t.Errorf("%s: %+v", path, found)
		}
	}
}

// A forward in another file may need autograd: then its evaluation is a note without a repair.
func TestAModelThatDifferentiatesKeepsItsGraph(t *testing.T) {
	t.Parallel()
	field := []byte(`import torch
def slope(y, x):
    return torch.autograd.grad(y.sum(), x)[0]
class Field(torch.nn.Module):
    def forward(self, x):
        return slope(self.net(x), x)
`)
	eval := []byte(`import torch
def evaluate(conf, loader):
    model = build(conf)
    model.eval()
    for x in loader:
        print(model(x))
`)
	for _, c := range []struct {
		model []byte
		want  string
	}{{field, "note"}, {[]byte("import torch\nclass Plain(torch.nn.Module):\n    def forward(self, x):\n        return self.net(x)\n"), "error"}} {
		reports := []*lint.Report{lint.Check("field.py", c.model, nil), lint.Check("eval.py", eval, nil)}
		found := reports[1].Choose(lint.Options{Project: lint.Survey(reports)})
		if len(found) != 1 || found[0].Rule != "LM003" || found[0].Severity.String() != c.want {
			t.Errorf("%s: %+v", c.want, found)
		}
	}
}

// A flag that nobody in the project sets leaves checkpointing off: a note.
func TestCheckpointingThatNobodySwitchesOnIsANote(t *testing.T) {
	t.Parallel()
	model := []byte(`import torch
from torch.utils.checkpoint import checkpoint
class Stage(torch.nn.Module):
    def __init__(self, blocks, use_checkpoint=False):
        super().__init__()
        self.blocks, self.use_checkpoint = blocks, use_checkpoint
    def forward(self, x):
        for block in self.blocks:
            if self.use_checkpoint:
                x = checkpoint(block, x)
        return x
class Net(torch.nn.Module):
    def __init__(self, use_checkpoint=False):
        super().__init__()
        self.stage = Stage(blocks(), use_checkpoint=use_checkpoint)
`)
	for main, want := range map[string]string{
		"net = Net()":                                  "note",
		"net = Net(use_checkpoint=False)":              "note",
		"net = Net(use_checkpoint=True)":               "warning",
		"net = Net(use_checkpoint=config.checkpoint)":  "warning",
		"parser.add_argument('--use-checkpoint')":      "warning",
		"net = Net()\nnet.stage.use_checkpoint = True": "warning",
	} {
		reports := []*lint.Report{lint.Check("model.py", model, nil), lint.Check("main.py", []byte("from model import Net\n"+main+"\n"), nil)}
		found := reports[0].Choose(lint.Options{Project: lint.Survey(reports)})
		if len(found) != 1 || found[0].Rule != "LM036" || found[0].Severity.String() != want {
			t.Errorf("%s: %+v", main, found)
		}
	}
}

func TestFindingsOnTheGuiltyStackAreRaised(t *testing.T) {
	t.Parallel()
	found := []lint.Finding{
		{Rule: "LM012", Severity: lint.Note, File: "lib/train.py", Line: 11, EndLine: 11, First: 11, Last: 11},
		{Rule: "LM039", Severity: lint.Note, File: "src/train.py", Line: 40, EndLine: 40, First: 40, Last: 40},
		{Rule: "LM024", Severity: lint.Warning, File: "src/train.py", Line: 10, EndLine: 12, First: 10, Last: 12},
		{Rule: "LM001", Severity: lint.Error, File: "src/train.py", Line: 99, EndLine: 99, First: 99, Last: 99},
		{Rule: "LM014", Severity: lint.Note, File: "module.py", Line: 12, EndLine: 12, First: 12, Last: 12},
	}
	stack := []lint.Frame{{"/opt/site-packages/torch/nn/modules/module.py", 12}, {"/home/me/src/train.py", 11}, {"/home/me/src/train.py", 40}}
	got := lint.Raise(found, stack)
	if ids(got) != "LM024:10 LM039:40" || got[0].Severity != lint.Error || got[1].Severity != lint.Warning {
		t.Errorf("got %+v", got)
	}
}

func TestALeakExplainsTheAllocationsOfItsLoop(t *testing.T) {
	t.Parallel()
	found := lint.Source("train.py", []byte("import torch\nkept = []\nfor x in loader:\n    out = model(x)\n\n\n\n\n    kept.append(out)\nprint(kept)\n"), lint.Options{})
	if got := ids(lint.Raise(found, []lint.Frame{{"train.py", 4}})); got != "LM001:9" {
		t.Errorf("the forward on line 4 is explained by %q", got)
	}
}

func TestNeighboursTellWhatTheirFunctionsDo(t *testing.T) {
	t.Parallel()
	helper := lint.Exports("engine.py", []byte(`import torch
def as_number(model, x):
    return model(x).mean().item()
def with_graph(model, x):
    return model(x).mean()
@torch.no_grad()
def quietly(model, x):
    return model(x).mean()
class Net(torch.nn.Module):
    pass
`), nil)
	lookup := func(module string) *flow.Exports {
		if module == "engine" {
			return helper
		}
		return nil
	}
	program := `from engine import as_number, with_graph, quietly, Net
import torch
net = Net()
a = b = c = 0
for x in loader:
    a += as_number(net, x)
    b += with_graph(net, x)
    c += quietly(net, x)
print(a, b, c)
`
	if got := ids(lint.Source("train.py", []byte(program), lint.Options{Lookup: lookup})); got != "LM001:7" {
		t.Errorf("got %q", got)
	}
}

func FuzzSource(f *testing.F) {
	for _, r := range lint.Rules() {
		for _, e := range examples(f, r.ID) {
			f.Add([]byte(e.code + "\nimport torch\n"))
		}
	}
	text, err := os.ReadFile(filepath.Join("testdata", "patterns.txt"))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	f.Fuzz(func(t *testing.T, src []byte) {
		found := lint.Source("t.py", src, lint.Options{Select: []string{"ALL"}})
		for _, x := range found {
			if x.Line < 1 || x.Column < 1 || x.Message == "" || x.Fix == "" {
				t.Fatalf("a finding without place or words: %+v", x)
			}
		}
		if _, err := lint.Notebook("t.ipynb", src, lint.Options{}); err != nil {
			return
		}
	})
}

func BenchmarkSource(b *testing.B) {
	text, err := os.ReadFile(filepath.Join("testdata", "patterns.txt"))
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		lint.Source("train.py", text, lint.Options{})
	}
}

// Samples that stay on the CPU would meet what a helper makes on the GPU: the advice names it. What is called otherwise than `loss` is called so in the advice.
func TestAdviceSpeaksOfTheProgramsOwnNames(t *testing.T) {
	t.Parallel()
	const images = "import torch\ndevice = torch.device('cuda')\ndef to_classes(x):\n    return torch.zeros(3, device=device)\ndef plain(x):\n    return x\nclass Images(torch.utils.data.Dataset):\n    def __getitem__(self, i):\n        image = read(i).to(device)\n        return HELPER(image)\n"
	const steps = "import torch\nfor i, (x, y) in enumerate(loader):\n    BACKWARD\n    if (i + 1) % 4 == 0:\n        optimizer.step()\n        optimizer.zero_grad()\n"
	for _, c := range []struct{ program, rule, has, not string }{
		{strings.ReplaceAll(images, "HELPER", "to_classes"), "LM007", "the helpers it calls make (`to_classes`)", ""},
		{strings.ReplaceAll(images, "HELPER", "plain"), "LM007", "", "helpers"},
		{strings.ReplaceAll(steps, "BACKWARD", "loss_v = criterion(model(x), y)\n    loss_v.backward()"), "LM011", "`(loss_v / 4).backward()`", ""},
		{strings.ReplaceAll(steps, "BACKWARD", "cost = criterion(model(x), y)\n    scaler.scale(cost).backward()"), "LM011", "`scaler.scale(cost / 4).backward()`", ""},
	} {
		seen := false
		for _, f := range lint.Source("train.py", []byte(c.program), lint.Options{}) {
			if f.Rule == c.rule {
				seen = true
				if !strings.Contains(f.Fix, c.has) || c.not != "" && strings.Contains(f.Fix, c.not) {
					t.Errorf("%s: %s", c.rule, f.Fix)
				}
			}
		}
		if !seen {
			t.Errorf("%s is not reported\n%s", c.rule, c.program)
		}
	}
}
