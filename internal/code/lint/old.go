package lint

import "strings"

// oldWords are the signs of a file that was written for PyTorch before 0.4: volatile and async are arguments, and a loss is read with .data[0]
// (https://github.com/pytorch/pytorch/releases/tag/v0.4.0); or for Python 2.
var oldWords = []string{".data[0]", "volatile=", ".volatile", "async=True", "xrange("}

// Old tells whether a source was written for PyTorch before 0.4.
func Old(src []byte) bool { return contains(src, oldWords...) }

// beforeMerge says how advice is spelled where there may be no torch.no_grad, no item() and no map_location by name.
var beforeMerge = strings.NewReplacer(
	"`with torch.no_grad():`", "`with torch.no_grad():` (PyTorch 0.4 or newer; before, make its input `Variable(…, volatile=True)`)",
	"`map_location=\"cpu\"`", "`map_location=lambda storage, loc: storage`",
	"or `.item()`", "or `.item()` (PyTorch 0.4 or newer)",
	"with non_blocking=True", "with non_blocking=True (async=True before PyTorch 0.4)",
)

// inItsTime spells the advice of a finding so that it also runs on the PyTorch that its project was written for. A repair that PyTorch 0.3 does not know is
// left out.
func inItsTime(f Finding) Finding {
	f.Fix = beforeMerge.Replace(f.Fix)
	if f.Rule == "LM003" {
		f.Repair = nil
	}
	return f
}
