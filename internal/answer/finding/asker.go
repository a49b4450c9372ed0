package finding

import (
	"cmp"
	"slices"

	"github.com/plimsoll/plimsoll/internal/answer/report"
	release "github.com/plimsoll/plimsoll/internal/torch"
)

// Asker is whom an answer is for, as far as the evidence tells. Empty fields are not known.
type Asker struct {
	Stack   []string        // frameworks and programs in use, the most special first: vllm, pytorch
	Backend string          // cuda, hip, xpu, npu, mps, tpu, cpu …
	OS      string          // linux, windows, macos
	Work    string          // training, inference, serving, diffusion, data
	Torch   release.Version // the newest PyTorch it can be; zero: any
}

// PyTorch is the framework most entries are about.
const PyTorch = "pytorch"

// OldPyTorch tags those whose PyTorch has no expandable segments.
const OldPyTorch = "pytorch-without-expandable-segments"

// Kinds of work.
const (
	Training  = "training"
	Inference = "inference"
	Serving   = "serving"
	Diffusion = "diffusion" // image and video generation in a UI or a pipeline
	Data      = "data"      // preparing data, numerical work without a model
)

// Unstated is the backend or work of an asker where nothing tells.
const Unstated = "unstated"

// Trainer is who records a memory snapshot: PyTorch on a CUDA card.
var Trainer = Asker{Stack: []string{PyTorch}, Backend: "cuda", Work: Training}

// fits tells whether advice is meant for this asker. Advice for one framework, backend or kind of work is not given where these are not known. An operating system
// that is not known is taken for Linux, and a release for the newest.
func (a Asker) fits(to report.Applies) bool {
	stack := len(to.Framework) == 0 || slices.ContainsFunc(a.Stack, func(s string) bool { return slices.Contains(to.Framework, s) })
	backend := len(to.Backend) == 0 || slices.Contains(to.Backend, cmp.Or(a.Backend, Unstated))
	system := len(to.OS) == 0 || slices.Contains(to.OS, cmp.Or(a.OS, "linux")) || a.OS == "" && slices.Contains(to.OS, Unstated)
	work := len(to.Work) == 0 || slices.Contains(to.Work, cmp.Or(a.Work, Unstated))
	return stack && backend && system && work && a.new(to.Torch)
}

// new tells whether the asker's PyTorch can be of this release or a later one.
func (a Asker) new(from string) bool {
	least, err := release.ParseVersion(from)
	return err != nil || !a.Torch.Said() || a.Torch.AtLeast(least)
}
