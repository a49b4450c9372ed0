package workspace

import (
	"context"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/plimsoll/plimsoll/internal/code/lint"
)

// project writes files below a folder of its own.
func project(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for name, text := range files {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

// checkAll gives the findings of all files of a project, with the workspace that found them.
func checkAll(t *testing.T, root string, c *Cache) ([]lint.Finding, *Workspace) {
	t.Helper()
	var s Settings
	files, err := s.Files([]string{root})
	if err != nil {
		t.Fatal(err)
	}
	w := New(s).Caching(c)
	results, err := w.Check(context.Background(), files, 1)
	if err != nil {
		t.Fatal(err)
	}
	var out []lint.Finding
	for _, r := range results {
		out = append(out, r.Findings...)
	}
	return out, w
}

const (
	loads     = "import torch\nmodel.cuda()\nmodel.load_state_dict(torch.load(\"checkpoint.pt\"))\ntorch.save(model.state_dict(), \"checkpoint.pt\")\n"
	evaluates = "import torch\nmodel.eval()\nfor x, y in test_loader:\n    print(model(x))\n"
	spreads   = "import torch\nmodel = torch.nn.parallel.DistributedDataParallel(model)\n"
)

// One file that was written for PyTorch 0.3, or a page that says so, counts for all files of the project: nothing is advised or written that 0.3 would not run.
func TestTheAgeOfAProjectIsThatOfItsFilesTogether(t *testing.T) {
	t.Parallel()
	for name, sign := range map[string][2]string{
		"volatile": {"util/train.py", "from torch.autograd import Variable\nx = Variable(x, volatile=True)\n"},
		"a number": {"util/train.py", "import torch\nprint(loss.data[0])\n"},
		"async":    {"util/train.py", "import torch\nx = x.cuda(async=True)\n"},
		"a page":   {"README.md", "Needs PyTorch >= 0.3\n"},
	} {
		root := project(t, map[string]string{"load.py": loads, "test.py": evaluates, "spread.py": spreads, sign[0]: sign[1]})
		found, _ := checkAll(t, root, nil)
		seen := map[string]bool{}
		for _, f := range found {
			seen[f.Rule] = true
			switch f.Rule {
			case "LM003":
				if f.Repair != nil || !strings.Contains(f.Fix, "volatile=True") {
					t.Errorf("%s: %+v", name, f)
				}
			case "LM024":
				if f.Repair == nil || !f.Repair.Safe || !strings.Contains(f.Repair.Edits[0].Text, "lambda storage, loc: storage") || strings.Contains(f.Fix, `"cpu"`) {
					t.Errorf("%s: %+v", name, f)
				}
			case "LM032":
				if f.Repair != nil {
					t.Errorf("%s: %+v", name, f)
				}
			}
		}
		if !seen["LM003"] || !seen["LM024"] || !seen["LM032"] {
			t.Errorf("%s: only %v", name, seen)
		}
	}
}

// A repair is tried with all that the project shows, whether the files were read or taken from the cache, and the texts that are tried do not get into it.
func TestRepairsAreTriedWithinTheProject(t *testing.T) {
	t.Parallel()
	root := project(t, map[string]string{"load.py": loads, "util/train.py": "from torch.autograd import Variable\nx = Variable(x, volatile=True)\n"})
	c := MemoryCache()
	for round, looked := range []int{2, 0} {
		_, w := checkAll(t, root, c)
		if w.Looked() != looked {
			t.Errorf("round %d: %d files looked at", round, w.Looked())
		}
		text, fixed, err := w.Fix(filepath.Join(root, "load.py"), []byte(loads), true)
		if err != nil || fixed != 1 || !strings.Contains(string(text), "map_location=lambda storage, loc: storage") {
			t.Errorf("round %d: %d fixed, %v: %s", round, fixed, err, text)
		}
	}
}

// An argument that came with 1.7 is not written into a project that also runs on 1.4.
func TestAnArgumentIsNotWrittenForAnOlderPyTorch(t *testing.T) {
	t.Parallel()
	for page, want := range map[string]bool{"- PyTorch >= 1.4.0\n": false, "- PyTorch >= 1.8\n": true, "": true} {
		found, _ := checkAll(t, project(t, map[string]string{"README.md": page, "codes/spread.py": spreads}), nil)
		if len(found) != 1 || found[0].Rule != "LM032" || (found[0].Repair != nil) != want {
			t.Errorf("with %q: %+v", page, found)
		}
	}
}

// A framework of the project's own, and what is inherited from a class of another file, are known across files.
func TestWhatOtherFilesSayOfAModelCounts(t *testing.T) {
	t.Parallel()
	const own = "import numpy as np\nclass Module:\n    def __call__(self, x):\n        return self.forward(x)\n"
	const base = "import pytorch_lightning as pl\nclass Base(pl.LightningModule):\n    def freeze(self):\n        self.embedder.eval()\n        self.embedder.requires_grad_(False)\n"
	const target = "import torch\nfrom base import Base\nclass Target(Base):\n    def __init__(self, embedder: torch.nn.Module):\n        super().__init__()\n        self.embedder = embedder\n        self.freeze()\n    def on_train_batch_end(self, outputs, batch, i):\n        self.eval()\n        print(self.embedder(batch))\n"
	const user = "import mytorch.nn as nn\nfrom torch.utils.data import DataLoader\nclass Net(nn.Module):\n    def forward(self, x):\n        return x\nmodel = Net()\nmodel.eval()\nfor x in DataLoader(test):\n    print(model(x))\n"
	for name, c := range map[string]struct {
		files map[string]string
		want  int
	}{
		"its own framework":   {map[string]string{"mytorch/__init__.py": "", "mytorch/nn/__init__.py": own, "train.py": user}, 0},
		"its own on PyTorch":  {map[string]string{"mytorch/__init__.py": "", "mytorch/nn/__init__.py": "import torch\nclass Module(torch.nn.Module):\n    def __init__(self):\n        super().__init__()\n        self.w = torch.nn.Linear(2, 2)\n", "train.py": user}, 1},
		"frozen by its base":  {map[string]string{"base.py": base, "target.py": target}, 0},
		"unfrozen by nothing": {map[string]string{"base.py": strings.ReplaceAll(base, "requires_grad_(False)", "train(False)"), "target.py": target}, 1},
	} {
		if found, _ := checkAll(t, project(t, c.files), nil); len(found) != c.want {
			t.Errorf("%s: %+v", name, found)
		}
	}
}

// While the folders hold what they held, no import is looked for again; a file that appears, or goes, is seen.
func TestImportsAreResolvedAgainOnlyWhenTheFoldersChanged(t *testing.T) {
	t.Parallel()
	root := project(t, map[string]string{
		"pkg/__init__.py": "", "pkg/step.py": "def step(model, x):\n    return model(x).mean()\n",
		"train.py": "import torch\nfrom pkg.step import step\nfrom meters import Meter\ntotal = 0\nfor x in loader:\n    total += step(model, x)\nprint(total)\nm = Meter()\nfor x in loader:\n    m.update(model(x).mean())\n",
	})
	kept := filepath.Join(t.TempDir(), "cache")
	run := func(again bool) []lint.Finding {
		t.Helper()
		c := OpenCache(kept, "test")
		got, w := checkAll(t, root, c)
		want, _ := checkAll(t, root, nil)
		if !reflect.DeepEqual(got, want) {
			t.Errorf("with a cache %+v, without %+v", got, want)
		}
		if looked := w.asked[root]["meters"] || w.asked[root]["meters.py"]; looked != again {
			t.Errorf("imports were looked for: %v, in %v", looked, w.asked)
		}
		if err := c.Save(); err != nil {
			t.Fatal(err)
		}
		return got
	}
	first := run(true)
	run(false)
	meters := filepath.Join(root, "meters.py")
	if err := os.WriteFile(meters, []byte("class Meter:\n    def __init__(self):\n        self.sum = 0\n    def update(self, v):\n        self.sum += v\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if second := run(true); len(second) <= len(first) {
		t.Errorf("the new file was not seen: %+v", second)
	}
	run(false)
	if err := os.Remove(meters); err != nil {
		t.Fatal(err)
	}
	if last := run(true); !reflect.DeepEqual(last, first) {
		t.Errorf("the file that went is still seen: %+v", last)
	}
}
