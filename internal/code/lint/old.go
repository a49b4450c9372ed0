package lint

import (
	"slices"
	"strings"
)

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

// inItsTime spells the advice of a finding, and its repair, so that they also run on the PyTorch that its project was written for. A repair that cannot be
// spelled so is left out.
func inItsTime(f Finding) Finding {
	f.Fix = beforeMerge.Replace(f.Fix)
	switch _, newer := advisedSince[f.Rule]; {
	case f.Repair == nil:
	case f.Rule == "LM024":
		f.Repair = byFunction(*f.Repair)
	case newer:
		f.Repair = nil
	}
	return f
}

// byFunction is a repair whose map_location is a function, which every release takes.
func byFunction(r Repair) *Repair {
	const cpu, function = `"cpu"`, "lambda storage, loc: storage"
	r.Title = strings.ReplaceAll(r.Title, cpu, function)
	r.Edits = slices.Clone(r.Edits)
	for i := range r.Edits {
		r.Edits[i].Text = strings.ReplaceAll(r.Edits[i].Text, cpu, function)
	}
	return &r
}
