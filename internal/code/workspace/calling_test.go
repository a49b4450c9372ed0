package workspace

import (
	"strings"
	"testing"
)

const (
	scores = "class Scorer:\n    def __init__(self, model):\n        self.model = model\n    def NAME(self, test_loader):\n        self.model.eval()\n        losses, total = [], 0\n        for x, y in test_loader:\n            loss = self.model(x).mean()\n            losses.append(loss)\n            total += loss\n        return losses, total\n"
	runner = "import torch\nclass Runner:\n    def __init__(self, model, loader):\n        self.model, self.loader = model, loader\n    def evaluate(self):\n        with torch.no_grad():\n            return self.one_epoch()\n    def one_epoch(self):\n        return self.through(self.loader)\n    def through(self, loader):\n        return self.collect(loader)\n"
	seg    = "from runner import Runner\nclass SegRunner(Runner):\n    def collect(self, test_loader):\n        self.model.eval()\n        for x, y in test_loader:\n            print(self.model(x).argmax(1))\n"
)

// Who switches autograd off may stand many calls above what would record a graph: in other files, in a class that another derives from, behind an
// object that is called, or behind a method of something whose class nobody sees. One caller that does not is enough for a finding.
func TestAutogradIsOffHoweverManyCallsAbove(t *testing.T) {
	t.Parallel()
	plain := map[string]string{
		"steps.py": "def score(model, test_loader):\n    model.eval()\n    for x, y in test_loader:\n        print(model(x).argmax(1))\n",
		"mid.py":   "import steps\ndef score_all(model, loaders):\n    return [steps.score(model, l) for l in loaders]\n",
		"up.py":    "from mid import score_all\ndef report(model, loaders):\n    return score_all(model, loaders)\n",
		"top.py":   "import up\ndef finish(model, loaders):\n    return up.report(model, loaders)\n",
		"main.py":  "import torch\nimport top\nwith torch.no_grad():\n    top.finish(model, loaders)\n",
	}
	inherited := map[string]string{"runner.py": runner, "seg.py": seg}
	object := map[string]string{
		"scorer.py": strings.ReplaceAll(scores, "NAME", "__call__"),
		"train.py":  "import torch\nfrom scorer import Scorer\nclass Trainer:\n    def __init__(self, model):\n        self.scorer = Scorer(model)\n    def check(self):\n        self.scorer(self.loader)\n    def epoch(self):\n        self.check()\n    def fit(self):\n        with torch.no_grad():\n            self.epoch()\n",
	}
	unseen := map[string]string{
		"scorer.py": strings.ReplaceAll(scores, "NAME", "grade"),
		"table.py":  "def row(scorer, loader):\n    return scorer.grade(loader)\ndef table(scorer, loaders):\n    return [row(scorer, l) for l in loaders]\n",
		"main.py":   "import torch\nfrom scorer import Scorer\nfrom table import table\nwith torch.inference_mode():\n    table(Scorer(model), loaders)\n",
	}
	recursive := map[string]string{
		"tree.py": "import torch\ndef walk(model, test_loader, depth):\n    model.eval()\n    for x, y in test_loader:\n        print(model(x).argmax(1))\n    if depth > 0:\n        walk(model, test_loader, depth - 1)\n@torch.no_grad()\ndef show(model, test_loader):\n    walk(model, test_loader, 3)\n",
	}
	for name, files := range map[string]map[string]string{"functions": plain, "a class above": inherited, "an object that is called": object, "a class nobody sees": unseen, "itself": recursive} {
		if found, _ := checkAll(t, project(t, files), nil); len(found) != 0 {
			t.Errorf("%s: %+v", name, found)
		}
		on := map[string]string{}
		for file, text := range files {
			text = strings.ReplaceAll(strings.ReplaceAll(text, "with torch.no_grad():", "if torch.cuda.is_available():"), "@torch.no_grad()\n", "")
			on[file] = strings.ReplaceAll(text, "with torch.inference_mode():", "if torch.cuda.is_available():")
		}
		if found, _ := checkAll(t, project(t, on), nil); len(found) == 0 {
			t.Errorf("%s: nothing is found where autograd is on", name)
		}
	}
	inherited["other.py"] = "from seg import SegRunner\nSegRunner(model, loader).collect(loader)\n"
	if found, _ := checkAll(t, project(t, inherited), nil); len(found) != 1 || found[0].Rule != "LM003" {
		t.Errorf("a caller with autograd on: %+v", found)
	}
}

// Data that is kept on the CPU from now on would meet what a helper makes on the device, wherever the helper stands.
func TestHelpersOfOtherFilesThatUseTheDeviceAreNamed(t *testing.T) {
	t.Parallel()
	const data = "import torch\nfrom masks import to_classes\nclass Images(torch.utils.data.Dataset):\n    def __getitem__(self, i):\n        image = read_image(self.files[i]).cuda()\n        return to_classes(image)\n"
	for helper, named := range map[string]bool{
		"import torch\ndef to_classes(image):\n    return torch.zeros(image.shape, device=\"cuda\")\n":                       true,
		"def blank(image):\n    return image.new_zeros(3).cuda()\ndef to_classes(image):\n    return image + blank(image)\n": true,
		"import torch\ndef to_classes(image):\n    return torch.zeros(image.shape, device=image.device)\n":                   false,
		"def to_classes(image):\n    return image.argmax(0)\n":                                                               false,
	} {
		found, _ := checkAll(t, project(t, map[string]string{"data.py": data, "masks.py": helper}), nil)
		if len(found) != 1 || found[0].Rule != "LM007" || strings.Contains(found[0].Fix, "`to_classes`") != named {
			t.Errorf("%q: %+v", helper, found)
		}
	}
}
