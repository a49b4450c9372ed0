package lint_test

import (
	"strings"
	"testing"

	"github.com/plimsoll/plimsoll/internal/code/lint"
)

// A file that was written for PyTorch 0.3 is told nothing that 0.3 does not know without being told so.
func TestAdviceRunsOnThePyTorchAFileWasWrittenFor(t *testing.T) {
	t.Parallel()
	const program = `import torch
model.cuda()
checkpoint = torch.load("checkpoint.pt")
model.load_state_dict(checkpoint["model"])
model.eval()
total = 0
for x, y in test_loader:
    total += criterion(model(Variable(x)), y)
torch.save({"model": model.state_dict()}, "checkpoint.pt")
`
	const modern = "device = torch.device('cuda')\n"
	for _, old := range []string{modern, "", "print(loss.data[0])\n", "x = Variable(x, volatile=True)\n", "x.volatile = True\n", "y = y.cuda(async=True)\n"} {
		for _, f := range lint.Source("t.py", []byte(program+old), lint.Options{}) {
			for word, allowed := range map[string]string{"no_grad": "before, make its input", "`.item()`": "`.item()` (PyTorch 0.4", `map_location="cpu"`: "lambda"} {
				if strings.Contains(f.Fix, word) && strings.Contains(f.Fix, allowed) != (old != modern) {
					t.Errorf("%q: %s %s", old, f.Rule, f.Fix)
				}
			}
		}
	}
}

// What switched autograd off before 0.4 is seen where it stands in a line that Python 3.7 does not read any more.
func TestVolatileIsSeenBesideAsync(t *testing.T) {
	t.Parallel()
	const program = "import torch\nfrom torch.autograd import Variable\nmodel.eval()\nfor x, y in loader:\n    out = model(Variable(x, volatile=True).cuda(async=True))\n    print(out.max(1))\n"
	for _, f := range lint.Source("t.py", []byte(program), lint.Options{}) {
		if f.Rule == "LM003" {
			if !strings.Contains(f.Message, "`volatile=True` does nothing since PyTorch 0.4") {
				t.Error(f.Message)
			}
			return
		}
	}
	t.Error("not found")
}
