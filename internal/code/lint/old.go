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

// release is a version of PyTorch, without the patch.
type release [2]int

func (r release) before(o release) bool { return r[0] < o[0] || r[0] == o[0] && r[1] < o[1] }

// shown are words of code that runs from a release on. A project that has one of them needs that release.
var shown = []struct {
	trait Trait
	since release
	words []string
}{
	// https://github.com/pytorch/pytorch/releases/tag/v0.4.0
	{Since04, release{0, 4}, []string{"no_grad", ".item()", "torch.device", ".to(", "set_grad_enabled", "torch.tensor("}},
	// set_to_none: https://github.com/pytorch/pytorch/releases/tag/v1.7.0; inference_mode came with 1.9
	{Since17, release{1, 7}, []string{"set_to_none", "gradient_as_bucket_view", "inference_mode"}},
	// https://github.com/pytorch/pytorch/blob/v1.11.0/torch/utils/checkpoint.py
	{Since111, release{1, 11}, []string{"use_reentrant", "distributed.fsdp"}},
	// https://github.com/pytorch/pytorch/blob/v1.12.0/torch/amp/__init__.py; OutOfMemoryError and weights_only came with 1.13
	{Since112, release{1, 12}, []string{"torch.amp", "weights_only", "OutOfMemoryError", "set_float32_matmul_precision"}},
	// https://github.com/pytorch/pytorch/releases/tag/v2.0.0
	{Since20, release{2, 0}, []string{"torch.compile", "scaled_dot_product_attention"}},
	// https://github.com/pytorch/pytorch/blob/v2.3.0/torch/amp/grad_scaler.py
	{Since23, release{2, 3}, []string{"torch.amp.GradScaler", "flex_attention"}},
}

// age is what the text of a file tells of the PyTorch it runs on.
func age(has func(words ...string) bool) Trait {
	var out Trait
	if has(oldWords...) || has("print \"", "print '") && !has("print(") { // Python 2: its last PyTorch is 1.4, and most of it is older than 0.4
		out |= Ancient
	}
	if has("Variable(") {
		out |= Wraps
	}
	for _, s := range shown {
		if has(s.words...) {
			out |= s.trait
		}
	}
	return out
}

// ancient tells whether the program around a finding may run on a PyTorch before 0.4: its project says so; or it says nothing, and the file itself has
// something that only such a release takes, or another file has, or wraps tensors, and nothing came with 0.4.
func (p *Project) ancient(f Finding) bool {
	if says, known := p.says(f.File); known {
		return says.before(merged)
	}
	return f.Needs&Ancient != 0 && !p.shows(release{1, 7}) || p.Traits&(Ancient|Wraps) != 0 && !p.shows(merged)
}

// shows tells whether the code of the project needs a release, or a later one.
func (p *Project) shows(since release) bool {
	for _, s := range shown {
		if p.Traits&s.trait != 0 && !s.since.before(since) {
			return true
		}
	}
	return false
}

// has tells whether the project certainly runs on a release or a later one: by its code, or by what it says it needs.
func (p *Project) has(file string, since release) bool {
	if p.shows(since) {
		return true
	}
	says, known := p.says(file)
	return known && !says.before(since)
}

// says is the oldest release that the project says it runs on, or where it says none, the newest.
func (p *Project) says(file string) (since release, known bool) {
	for _, says := range []func(string) (int, int, bool){p.Oldest, p.Torch} {
		if says == nil {
			continue
		}
		if major, minor, known := says(file); known {
			return release{major, minor}, true
		}
	}
	return release{}, false
}

// beforeMerge says how advice is spelled where there may be no torch.no_grad, no item() and no map_location by name.
var beforeMerge = strings.NewReplacer(
	"no_grad():`", "no_grad():` (PyTorch 0.4 or newer; before, make its input `Variable(…, volatile=True)`)",
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
