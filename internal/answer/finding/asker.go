package finding

import (
	"slices"
	"strconv"
	"strings"

	"github.com/plimsoll/plimsoll/internal/answer/report"
)

// Asker is whom an answer is for, as far as the evidence tells. Empty fields are not known.
type Asker struct {
	Stack   []string // frameworks and programs in use, the most special first: vllm, pytorch
	Backend string   // cuda, hip, xpu, npu, mps, tpu, cpu …
	OS      string   // linux, windows, macos
	Work    string   // training, inference, serving, diffusion, data
	Torch   string   // the newest PyTorch it can be, "" any: "2.0"
}

// Frameworks that entries name.
const PyTorch = "pytorch"

// Kinds of work.
const (
	Training  = "training"
	Inference = "inference"
	Serving   = "serving"
	Diffusion = "diffusion" // image and video generation in a UI or a pipeline
	Data      = "data"      // preparing data, numerical work without a model
)

// Trainer is who records a memory snapshot: PyTorch on a CUDA card.
var Trainer = Asker{Stack: []string{PyTorch}, Backend: "cuda", Work: Training}

// fits tells whether advice is meant for this asker. Advice for one framework, backend or kind of work is not given where these are not known; an operating
// system and a release that are not known do not stand in its way, because they are seldom known and seldom matter.
func (a Asker) fits(to report.Applies) bool {
	stack := len(to.Framework) == 0 || slices.ContainsFunc(a.Stack, func(s string) bool { return slices.Contains(to.Framework, s) })
	backend := len(to.Backend) == 0 || slices.Contains(to.Backend, a.Backend)
	system := len(to.OS) == 0 || a.OS == "" || slices.Contains(to.OS, a.OS)
	work := len(to.Work) == 0 || slices.Contains(to.Work, a.Work)
	release := to.Torch == "" || a.Torch == "" || !before(a.Torch, to.Torch)
	return stack && backend && system && work && release
}

// before compares releases: "2.9" is before "2.10".
func before(a, b string) bool {
	x, y := strings.Split(a, "."), strings.Split(b, ".")
	for i := range min(len(x), len(y)) {
		m, _ := strconv.Atoi(x[i])
		n, _ := strconv.Atoi(y[i])
		if m != n {
			return m < n
		}
	}
	return false
}
