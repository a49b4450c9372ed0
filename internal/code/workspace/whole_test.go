package workspace

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/plimsoll/plimsoll/internal/code/lint"
)

// What is written into a file is what its finding offers, and that depends on the other files of the project.
func TestAFileIsRepairedAsAPartOfItsProject(t *testing.T) {
	t.Parallel()
	root := project(t, map[string]string{
		"load.py": loads, "test.py": evaluates, "spread.py": spreads,
		"other/old.py": "from torch.autograd import Variable\nx = Variable(x, volatile=True)\n",
	})
	var s Settings
	files, err := s.Files([]string{root})
	if err != nil {
		t.Fatal(err)
	}
	checked := New(s)
	if _, err := checked.Check(context.Background(), files, 1); err != nil {
		t.Fatal(err)
	}
	fix := func(w *Workspace, name string) string {
		t.Helper()
		path := filepath.Join(root, name)
		src, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		text, _, err := w.Fix(path, src, true)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	for name, alone := range map[string]string{"load.py": `map_location="cpu"`, "test.py": "no_grad", "spread.py": "gradient_as_bucket_view"} {
		if text := fix(New(s), name); !strings.Contains(text, alone) {
			t.Errorf("%s alone is not repaired: %s", name, text)
		}
		if text := fix(checked, name); strings.Contains(text, alone) {
			t.Errorf("%s is repaired as if it stood alone: %s", name, text)
		}
	}
	if text := fix(checked, "load.py"); !strings.Contains(text, "lambda storage, loc: storage") {
		t.Errorf("load.py: %s", text)
	}
}

// What one file does decides what is said of another.
func TestSeveritiesRestOnTheWholeProject(t *testing.T) {
	t.Parallel()
	const (
		trains   = "def train(model, loader, optimizer):\n    for x, y in loader:\n        optimizer.zero_grad()\n        criterion(model(x), y).backward()\n        optimizer.step()\n"
		wraps    = "import torch\ndef on_devices(model):\n    model = torch.nn.DataParallel(model)\n    return model\n"
		recalls  = "from torch.utils.checkpoint import checkpoint\ndef run(block, x):\n    return checkpoint(block, x)\n"
		sums     = "import torch\ndef train(model, loader, optimizer, every):\n    for i, (x, y) in enumerate(loader):\n        loss = model(x).mean()\n        loss.backward()\n        if (i + 1) % every == 0:\n            optimizer.step()\n            optimizer.zero_grad()\n"
		resumes  = "import torch\nmodel.cuda()\ncheckpoint = torch.load(args.weights)\nmodel.load_state_dict(checkpoint[\"params\"])\n"
		saves    = "import torch\ndef save(net, path):\n    torch.save(net.cuda().state_dict(), path)\n"
		savesCPU = "import torch\ndef save_network(net, path):\n    weights = net.state_dict()\n    for key, value in weights.items():\n        weights[key] = value.cpu()\n    torch.save(weights, path)\n"
	)
	for name, c := range map[string]struct {
		files map[string]string
		rule  string
		want  lint.Severity
		none  bool
	}{
		"a wrapper that nobody asks for":         {map[string]string{"common.py": wraps, "train.py": trains}, "LM020", lint.Note, false},
		"a wrapper that a training asks for":     {map[string]string{"common.py": wraps, "train.py": "from common import on_devices\n" + trains + "train(on_devices(model), loader, optimizer)\n"}, "LM020", lint.Warning, false},
		"gradients that are detached in place":   {map[string]string{"ddp.py": spreads, "util.py": "import torch\ndef zero(params):\n    for p in params:\n        p.grad.detach_()\n        p.grad.zero_()\n"}, "LM032", lint.Note, true},
		"gradients that are left alone":          {map[string]string{"ddp.py": spreads, "train.py": trains}, "LM032", lint.Note, false},
		"checkpoints where everything trains":    {map[string]string{"net.py": recalls, "train.py": trains}, "LM036", lint.Note, false},
		"checkpoints where something is frozen":  {map[string]string{"net.py": recalls, "train.py": trains, "main.py": "import torch\nmodel.embed.requires_grad_(False)\n"}, "LM036", lint.Warning, false},
		"checkpoints of a program that infers":   {map[string]string{"net_inference.py": recalls}, "LM036", lint.Note, false},
		"a loss of another file that is a sum":   {map[string]string{"train.py": sums, "net.py": "import torch\ndef loss(x, y, reduction: str = \"sum\"):\n    return torch.nn.functional.mse_loss(x, y, reduction=reduction)\n"}, "LM011", lint.Note, false},
		"a loss that is a mean":                  {map[string]string{"train.py": sums}, "LM011", lint.Warning, false},
		"weights that were moved before a save":  {map[string]string{"demo.py": resumes, "save.py": saves, "base.py": savesCPU}, "LM024", lint.Note, false},
		"weights that were saved where they are": {map[string]string{"demo.py": resumes, "save.py": saves}, "LM024", lint.Warning, false},
	} {
		found, _ := checkAll(t, project(t, c.files), nil)
		seen := 0
		for _, f := range found {
			if f.Rule == c.rule {
				seen++
				if f.Severity != c.want {
					t.Errorf("%s: %+v", name, f)
				}
			}
		}
		if (seen == 0) != c.none {
			t.Errorf("%s: %+v", name, found)
		}
	}
}

// A program that says or shows that it runs on a newer PyTorch is not advised for 0.3, whatever a helper of it looks like.
func TestOneOldLineMakesNoOldProject(t *testing.T) {
	t.Parallel()
	const old = "import torch\ndef show(v):\n    return v.data[0]\n"
	for name, c := range map[string]struct {
		files map[string]string
		old   bool
	}{
		"nothing says more":   {map[string]string{"util.py": old, "test.py": evaluates}, true},
		"a page says 1.4":     {map[string]string{"util.py": old, "test.py": evaluates, "README.md": "- PyTorch >= 1.4.0\n"}, false},
		"a list says 1.11":    {map[string]string{"util.py": old, "test.py": evaluates, "requirements.txt": "torch==1.11.0\n"}, false},
		"other files are new": {map[string]string{"util.py": old, "test.py": evaluates, "train.py": "import torch\nwith torch.no_grad():\n    print(1)\n"}, false},
		"the file is old":     {map[string]string{"test.py": evaluates + "print(loss.data[0])\n", "train.py": "import torch\nwith torch.no_grad():\n    print(1)\n"}, true},
		"the page says 0.3":   {map[string]string{"test.py": evaluates, "README.md": "Needs PyTorch >= 0.3\n"}, true},
	} {
		found, _ := checkAll(t, project(t, c.files), nil)
		for _, f := range found {
			if f.Rule == "LM003" && strings.Contains(f.Fix, "volatile=True") != c.old {
				t.Errorf("%s: %+v", name, f)
			}
		}
		if len(found) == 0 {
			t.Errorf("%s: nothing is found", name)
		}
	}
}
