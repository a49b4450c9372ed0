package diagnose

import (
	"slices"

	"github.com/plimsoll/plimsoll/internal/answer/finding"
	"github.com/plimsoll/plimsoll/internal/evidence/oomtext"
	"github.com/plimsoll/plimsoll/internal/torch"
)

// speaker is what is known about a program by its messages alone: what it is called in advice, what it is built on, what one does with it.
type speaker struct {
	stack []string
	work  string // where the text around it tells nothing else
}

// speakers by the library that a message names.
var speakers = map[string]speaker{
	"": {stack: []string{finding.PyTorch}}, "pytorch": {stack: []string{finding.PyTorch}}, "accelerate": {stack: []string{"accelerate", finding.PyTorch}, work: finding.Training},
	"transformers": {stack: []string{"transformers", finding.PyTorch, "dispatch"}}, "dataloader": {stack: []string{"dataloader", finding.PyTorch}, work: finding.Training},
	"triton": {stack: []string{finding.PyTorch}}, "bitsandbytes": {stack: []string{finding.PyTorch}}, "cann": {stack: []string{finding.PyTorch}}, "directml": {stack: []string{"directml", finding.PyTorch}},
	"vllm": {stack: []string{"vllm", finding.PyTorch}, work: finding.Serving}, "sglang": {stack: []string{"sglang", finding.PyTorch}, work: finding.Serving}, "tgi": {stack: []string{"tgi"}, work: finding.Serving},
	"tensorrt-llm": {stack: []string{"tensorrt-llm"}, work: finding.Serving}, "tensorrt": {stack: []string{"tensorrt"}, work: finding.Inference}, "ctranslate2": {stack: []string{"ctranslate2"}, work: finding.Inference},
	"onnxruntime": {stack: []string{"onnxruntime"}, work: finding.Inference}, "ggml": {stack: []string{"llama.cpp"}, work: finding.Inference}, "ollama": {stack: []string{"ollama", "llama.cpp"}, work: finding.Inference},
	"mlx": {stack: []string{"mlx"}, work: finding.Inference}, "metal": {stack: []string{"metal"}}, "tensorflow": {stack: []string{"tensorflow"}}, "jax": {stack: []string{"jax"}}, "paddle": {stack: []string{"paddle"}},
	"mxnet": {stack: []string{"mxnet"}}, "mindspore": {stack: []string{"mindspore"}}, "cupy": {stack: []string{"cupy"}, work: finding.Data}, "rmm": {stack: []string{"cudf"}, work: finding.Data},
	"xgboost": {stack: []string{"xgboost"}, work: finding.Training}, "numpy": {stack: []string{"numpy"}, work: finding.Data}, "arrow": {stack: []string{"arrow"}, work: finding.Data},
	"rust": {stack: []string{"rust"}, work: finding.Data}, "r": {stack: []string{"r"}, work: finding.Data}, "opencv": {stack: []string{"opencv"}, work: finding.Data},
}

// bases are frameworks of which a program uses one; the message says which. The text around it names others, too: PyTorch's logs are full of TensorFlow's warnings.
var bases = []string{finding.PyTorch, "tensorflow", "jax", "torch_xla", "paddle", "mxnet", "mindspore", "cupy", "cudf", "mlx", "onnxruntime", "llama.cpp", "ollama", "ctranslate2", "numpy", "pandas", "xgboost", "numba", "directml", "sklearn", "tensorrt"}

// Asker is whom the answer is for. Tags are added to its stack.
func (t *Text) Asker(tags ...string) finding.Asker {
	known, told := speakers[t.Library]
	a := finding.Asker{Backend: t.Backend, OS: t.Scene.OS, Work: t.Scene.Work, Torch: t.Versions.To, Stack: slices.Clone(tags)}
	host := t.Kind == oomtext.HostOOM || t.Kind == oomtext.SharedOOM
	switch {
	case t.Library == "" && t.Format != "other" && !host || told && t.Library != "":
		a.Stack = append(a.Stack, known.stack...)
	case host: // the system speaks
		a.Stack = append(a.Stack, t.Library, t.Format)
		a.Stack = append(a.Stack, t.base()...)
	default: // a driver or a library speaks: who uses it stands around it
		a.Stack = append(a.Stack, t.base()...)
	}
	for _, s := range t.Scene.Stack {
		if !slices.Contains(bases, s) || s == "ollama" && t.Library == "ggml" || host && s != "numpy" {
			a.Stack = append(a.Stack, s)
		}
	}
	if t.Format == "xla" {
		a.Stack = append(a.Stack, t.base()...)
	}
	a.Stack = append(a.Stack, t.circumstances()...)
	a.Work = t.work(known.work)
	if a.OS == "" && (t.Backend == "mps" || t.Library == "mlx" || t.Library == "metal") {
		a.OS = "macos"
	}
	if t.Library == "windows" || t.Library == "directml" {
		a.OS = "windows"
	}
	return a
}

// torchClasses are exceptions that PyTorch raises for errors of the driver and of libraries.
var torchClasses = []string{"RuntimeError", "torch.AcceleratorError", "torch.OutOfMemoryError", "torch.cuda.OutOfMemoryError"}

// base is the framework that the text around the message names first.
func (t *Text) base() []string {
	if t.Kind == oomtext.LibraryOOM && (slices.Contains(torchClasses, t.Class) || t.Library == "nvml") {
		return []string{finding.PyTorch}
	}
	for _, s := range t.Scene.Stack {
		if slices.Contains(bases, s) {
			return []string{s}
		}
	}
	return nil
}

// circumstances are tags for how the message came about.
func (t *Text) circumstances() []string {
	var out []string
	if t.Kind == oomtext.SharedOOM {
		out = append(out, "shm")
	}
	if t.Host.Signal == "SIGKILL" || t.Format == "killed" {
		out = append(out, "killed")
	}
	if t.Scene.Tests {
		out = append(out, "tests")
	}
	if to := t.Versions.To; to.Said() && to.Before(torch.V2_1) {
		out = append(out, finding.OldPyTorch)
	}
	return out
}

// work is what the program was doing: the traceback knows best, then the text, then what the program is for.
func (t *Text) work(usual string) string {
	switch phase, _ := t.Phase(); phase {
	case oomtext.PhaseBackward, oomtext.PhaseOptimizer:
		return finding.Training
	}
	switch usual {
	case finding.Serving:
		return usual
	case "":
		return t.Scene.Work
	}
	if t.Scene.Work == finding.Serving || t.Scene.Work == finding.Diffusion || t.Scene.Work == finding.Training && usual != finding.Inference {
		return t.Scene.Work
	}
	return usual
}
