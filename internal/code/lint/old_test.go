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
	for _, old := range []string{"", "print(loss.data[0])\n", "x = Variable(x, volatile=True)\n", "x.volatile = True\n", "y = y.cuda(async=True)\n"} {
		for _, f := range lint.Source("t.py", []byte(program+old), lint.Options{}) {
			for word, allowed := range map[string]string{"no_grad": "before, make its input", "`.item()`": "`.item()` (PyTorch 0.4", `map_location="cpu"`: "lambda"} {
				if strings.Contains(f.Fix, word) && strings.Contains(f.Fix, allowed) != (old != "") {
					t.Errorf("%q: %s %s", old, f.Rule, f.Fix)
				}
			}
		}
	}
}
