package workspace

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/plimsoll/plimsoll/internal/code/lint"
)

func TestThePinnedPyTorchIsRead(t *testing.T) {
	for text, want := range map[string][2]int{
		"numpy==1.20\ntorch==1.8.1\n":            {1, 8},
		"dependencies:\n  - pytorch=1.9\n":       {1, 9},
		"    install_requires=['torch<1.11'],\n": {1, 10},
		"torch ~= 2.1":                           {2, 1},
		"torch>=1.8\n":                           {},
		"torchvision==0.9.1\n":                   {},
		"# torch==1.4\n":                         {},
		"torch<2.0\n":                            {},
		"pytorch-lightning==1.2\n":               {},
	} {
		major, minor, ok := pin([]byte(text))
		if ok != (want != [2]int{}) || [2]int{major, minor} != want {
			t.Errorf("%q: %d.%d, %v", text, major, minor, ok)
		}
	}
}

func TestAPageTellsThePyTorchOfAProject(t *testing.T) {
	for text, want := range map[string][2]int{
		"## Requirements\n- Python 3.7\n- PyTorch 1.8.0\n":     {1, 8},
		"* pytorch (tested on 1.7.1)\n":                        {1, 7},
		"**PyTorch** 1.4 and CUDA 10.1":                        {1, 4},
		"Tested with torch==1.6.0, and with pytorch 1.9":       {1, 9},
		"pip install torch==2.1.0 torchvision==0.16":           {2, 1},
		"the <a href=\"x\">paper</a>. Tested on PyTorch 1.10.": {1, 10},
		"at least PyTorch 1.8":                                 {},
		"- torch-0.3.1":                                        {0, 3},
		"* [PyTorch](http://pytorch.org/) (0.3.1)":             {0, 3},
		"- [**PyTorch**](https://pytorch.org) 1.2":             {1, 2},
		"PyTorch(1.4)":         {1, 4},
		"PyTorch=0.2":          {0, 2},
		"PyTorch >= 1.7":       {},
		"PyTorch 1.7+":         {},
		"PyTorch 1.8 or newer": {},
		"needs PyTorch":        {},
		"torchvision 0.9":      {},
		"PyTorch 1.8 was used\nAny pytorch version >= 1.8 runs": {1, 8},
	} {
		major, minor, ok := tellsOf([]byte(text))
		if ok != (want != [2]int{}) || [2]int{major, minor} != want {
			t.Errorf("%q: %d.%d, %v", text, major, minor, ok)
		}
	}
}

func TestAdviceThatThePinnedPyTorchDoesNotKnowIsNotGiven(t *testing.T) {
	for pins, want := range map[string][]lint.Severity{"torch==1.8.1\n": nil, "torch==1.13.1\n": {lint.Note}, "torch==2.4.0\n": {lint.Warning}, "": {lint.Warning}} {
		root := t.TempDir()
		file := filepath.Join(root, "src", "block.py")
		for path, text := range map[string]string{
			filepath.Join(root, "requirements.txt"): pins,
			file:                                    "import torch\nfrom torch.utils.checkpoint import checkpoint\ndef run(block, x):\n    return checkpoint(block, x)\n",
		} {
			if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		var got []lint.Severity
		for _, f := range New(Settings{}).File(file).Findings {
			got = append(got, f.Severity)
		}
		if !slices.Equal(got, want) {
			t.Errorf("with %q: %v", pins, got)
		}
	}
}

func TestTheOldestPyTorchOfAProjectIsRead(t *testing.T) {
	for text, want := range map[string][2]int{
		"torch>=1.7\n": {1, 7},
		"    install_requires=['torch>=1.6.0', 'x'],\n": {1, 6},
		"  - pytorch>=1.8\n":                            {1, 8},
		"torch==1.8.1\n":                                {},
		"torchvision>=0.9\n":                            {},
		"# torch>=1.4\n":                                {},
	} {
		if major, minor, ok := atLeast([]byte(text)); ok != (want != [2]int{}) || [2]int{major, minor} != want {
			t.Errorf("%q: %d.%d, %v", text, major, minor, ok)
		}
	}
	for text, want := range map[string][2]int{
		"PyTorch >= 1.7":              {1, 7},
		"PyTorch at least 1.7":        {1, 7},
		"at least PyTorch 1.8":        {1, 8},
		"PyTorch 1.7+":                {1, 7},
		"PyTorch 1.8 or newer":        {1, 8},
		"- PyTorch 1.8.0":             {},
		"needs PyTorch":               {},
		"pytorch version >= 1.6 runs": {1, 6},
		"PyTorch (version >= 0.2)":    {0, 2},
		"- PyTorch >= 1.4.0":          {1, 4},
		"[PyTorch](http://x.y/) >= 1": {},
		"[PyTorch](http://x.y/)>=1.0": {1, 0},
	} {
		if major, minor, ok := tellsOldest([]byte(text)); ok != (want != [2]int{}) || [2]int{major, minor} != want {
			t.Errorf("%q: %d.%d, %v", text, major, minor, ok)
		}
	}
}

// torch.amp.autocast is there since 1.12, torch.amp.GradScaler since 2.3: a project that is not known to run on such a release does not get them without
// being asked, or told.
func TestARepairWaitsForAPyTorchThatTakesIt(t *testing.T) {
	const autocast = "import torch\nwith torch.cuda.amp.autocast():\n    out = model(x)\n"
	const scaler = "import torch\nscaler = torch.cuda.amp.GradScaler()\n"
	const ddp = "import torch\nmodel = torch.nn.parallel.DistributedDataParallel(model)\n"
	const blocks = "import torch\ny = torch.utils.checkpoint.checkpoint(block, x)\n"
	const loads = "import torch\nfrom torch.autograd import Variable\nmodel = torch.nn.Linear(3, 3).cuda()\nmodel.load_state_dict(torch.load('model.pth'))\nout = model(Variable(x))\n"
	for _, c := range []struct{ requirements, program, want string }{
		{"torch>=1.12\n", autocast, "Replace with `torch.amp.autocast(\"cuda\")`, safe"},
		{"", autocast + "model = torch.compile(model)\n", "Replace with `torch.amp.autocast(\"cuda\")`, safe"},
		{"", autocast, "Replace with `torch.amp.autocast(\"cuda\")` (PyTorch 1.12 or newer)"},
		{"torch>=1.7\n", autocast, ""},
		{"torch>=1.10\n", autocast, ""},
		{"", scaler, ""},
		{"torch>=1.13\n", scaler, ""},
		{"torch>=2.4\n", scaler, "Replace with `torch.amp.GradScaler(\"cuda\")`"},
		{"torch>=1.4\n", ddp, ""},
		{"", ddp, "Add `gradient_as_bucket_view=True` (PyTorch 1.7 or newer)"},
		{"torch>=1.9\n", ddp, "Add `gradient_as_bucket_view=True`"},
		{"torch>=1.7\n", blocks, ""},
		{"", blocks, "Add `use_reentrant=False` (PyTorch 1.11 or newer)"},
		{"", loads, "Load onto the CPU: `map_location=lambda storage, loc: storage`, safe"},
		{"", loads + "print(loss.item())\n", "Load onto the CPU: `map_location=\"cpu\"`, safe"},
	} {
		root := t.TempDir()
		file := filepath.Join(root, "train.py")
		for path, text := range map[string]string{filepath.Join(root, "requirements.txt"): c.requirements, file: c.program} {
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		got := ""
		for _, f := range New(Settings{}).File(file).Findings {
			if f.Repair != nil {
				got = f.Repair.Title
				if f.Repair.Safe {
					got += ", safe"
				}
			}
		}
		if got != c.want {
			t.Errorf("%q\n%s got %q, want %q", c.requirements, c.program, got, c.want)
		}
	}
}

// How a project is installed may stand in its documentation; what the documentation itself is built with does not count.
func TestDocsTellThePyTorchOfAProject(t *testing.T) {
	for _, c := range []struct {
		path, text string
		silent     bool
	}{
		{"docs/INSTALL.md", "- PyTorch ≥ 1.5\n```\nconda install pytorch==1.6.0 torchvision -c pytorch\n```\n", true},
		{"doc/getting_started.rst", "pip install torch==1.4.0\n", true},
		{"docs/INSTALL.md", "conda install pytorch==1.9.0\n", false},
		{"docs/requirements.txt", "torch==1.4.0\n", false},
		{"docs/history.md", "PyTorch 1.4 was used in the first release\n", false},
	} {
		root := t.TempDir()
		file := filepath.Join(root, "tools", "train.py")
		for path, text := range map[string]string{filepath.Join(root, c.path): c.text, file: "import torch\nmodel = torch.nn.parallel.DistributedDataParallel(model)\n"} {
			if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		findings := New(Settings{}).File(file).Findings
		if silent := !slices.ContainsFunc(findings, func(f lint.Finding) bool { return f.Rule == "LM032" }); silent != c.silent {
			t.Errorf("%s with %q: %v", c.path, c.text, findings)
		}
	}
}
