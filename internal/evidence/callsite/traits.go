package callsite

import (
	"strconv"
	"strings"

	"github.com/plimsoll/plimsoll/snapshot"
)

func itoa(n int) string { return strconv.Itoa(n) }

// traits reads one frame. File names are those of PyTorch 2.x and of the libraries named; a frame that no rule
// knows has no traits but those of its place (user code, library).
func traits(f *snapshot.Frame) trait {
	file := strings.ReplaceAll(f.File, `\`, "/")
	if cpp(file, f.Line) {
		return cppTraits(f.Function)
	}
	t := isPython
	if f.Function == "<module>" || f.Function == "_run_module_as_main" {
		t |= isStart
	}
	if strings.Contains(f.Function, "closure") {
		t |= isClosure
	}
	switch {
	case ownProbe(file):
		return t
	case inTorch(file):
		return t | torchTraits(file, f.Function)
	case generated(file):
		return t | isCompiled
	case standard(file):
		return t | standardTraits(file, f.Function)
	case installed(file):
		return t | libraryTraits(file, f.Function)
	}
	return t | isUser | evalTrait(f.Function) | saveTrait(f.Function)
}

// saveTrait hears the saving of a checkpoint in a function's name: the copies it makes are asked for by the user's own lines.
func saveTrait(function string) trait {
	name := strings.Trim(strings.ToLower(function), "_")
	if name == "save" || strings.HasPrefix(name, "save_") || strings.HasSuffix(name, "_checkpoint") && strings.Contains(name, "write") {
		return isSaver
	}
	return 0
}

// ownProbe tells the recorder that plimsoll run puts into a program: it stands between the user's lines and is nobody's.
func ownProbe(file string) bool { return strings.Contains(file, "/probe/plimsoll/") }

// cpp tells a C++ frame: no line number, or a C++ file.
func cpp(file string, line int) bool {
	if file == "" || file == "??" || line == 0 {
		return true
	}
	for _, ext := range []string{".cpp", ".cc", ".cu", ".h", ".cuh", ".hpp", ".c"} {
		if strings.HasSuffix(file, ext) {
			return true
		}
	}
	return false
}

func cppTraits(function string) trait {
	switch {
	case strings.Contains(function, "torch::autograd::Engine") || strings.Contains(function, "torch::autograd::python::PythonEngine"):
		return isEngine
	case strings.Contains(function, "setWorkspaceForHandle") || strings.Contains(function, "getCUDABlasLtWorkspace") || strings.Contains(function, "getCUDABlasHandle"):
		return isWorkspace
	case strings.Contains(function, "run_conv_plan") || strings.Contains(function, "cudnn_convolution") || strings.Contains(function, "gpu_reduce_kernel"):
		return isWorkspace
	case strings.Contains(function, "CUDAGraph"):
		return isGraph
	}
	return 0
}

// inTorch tells PyTorch's own files, also of a build from source ("/opt/pytorch/torch/…").
func inTorch(file string) bool {
	if strings.Contains(file, "-packages/torch/") || strings.HasPrefix(file, "torch/") || strings.Contains(file, "/pytorch/torch/") {
		return true
	}
	return strings.Contains(file, "/torch/nn/modules/") || strings.Contains(file, "/torch/optim/") || strings.Contains(file, "/torch/autograd/")
}

// generated tells code that torch.fx and torch.compile write: "<eval_with_key>.3", "/tmp/torchinductor_me/ab/cabc.py".
func generated(file string) bool {
	return strings.HasPrefix(file, "<eval_with_key>") || strings.Contains(file, "torchinductor")
}

// standard tells Python's own files, and what stands around every program: launchers and debuggers.
func standard(file string) bool {
	if strings.Contains(file, "-packages/") && !strings.Contains(file, "/debugpy/") {
		return false
	}
	switch {
	case strings.HasPrefix(file, "<"):
		return !strings.HasPrefix(file, "<ipython-input") && file != "<stdin>" && file != "<string>"
	case strings.Contains(file, "/debugpy/") || strings.Contains(file, "/pydevd"):
		return true
	case strings.Contains(file, "/bin/") || strings.Contains(file, "/Scripts/"):
		name := Base(file)
		return !strings.Contains(name, ".") || name == "__main__.py" // commands that pip installed
	}
	return standardLibrary(file)
}

// standardLibrary knows where Python keeps its own modules: lib/python3.11/ on Unix, Python311/Lib/ and envs' Lib/ on Windows.
func standardLibrary(file string) bool {
	for _, lib := range []string{"/lib/python", "/lib64/python"} {
		if _, rest, ok := strings.Cut(file, lib); ok && rest != "" && (rest[0] == '2' || rest[0] == '3') {
			return true
		}
	}
	if len(file) < 3 || file[1] != ':' {
		return false
	}
	low := strings.ToLower(file)
	_, rest, ok := strings.Cut(low, "/lib/")
	return ok && (strings.Contains(low, "python") || strings.Contains(low, "conda")) && !strings.Contains(rest, "site-packages")
}

// standardTraits knows the one module of Python that makes tensors: copy.
func standardTraits(file, function string) trait {
	if strings.HasSuffix(file, "/copy.py") && function == "deepcopy" {
		return isCopy
	}
	return 0
}

// installed tells code that a person did not write for this job: packages, and well-known libraries checked out beside it.
func installed(file string) bool {
	return strings.Contains(file, "-packages/") || installedPackage(file) != ""
}

// checkouts are folders of libraries that people install from their sources.
var checkouts = []string{"/src/transformers/", "/src/accelerate/", "/src/diffusers/", "/src/peft/", "/src/lightning/", "/deepspeed/runtime/"}

// installedPackage names the package a file belongs to, "" for none.
func installedPackage(file string) string {
	file = strings.ReplaceAll(file, `\`, "/")
	if _, rest, ok := strings.Cut(file, "-packages/"); ok {
		name, _, _ := strings.Cut(rest, "/")
		return strings.TrimSuffix(name, ".py")
	}
	for _, c := range checkouts {
		if strings.Contains(file, c) {
			return c
		}
	}
	return ""
}

// launchers are packages that start other programs in the same process.
var launchers = map[string]bool{"ipykernel": true, "ipykernel_launcher": true, "IPython": true, "traitlets": true, "tornado": true, "pluggy": true, "_pytest": true, "pytest": true,
	"click": true, "typer": true, "fire": true, "hydra": true, "debugpy": true, "tyro": true}

// torchTraits knows PyTorch's own files.
func torchTraits(file, function string) trait {
	switch {
	case function == "__deepcopy__":
		return isCopy
	case strings.Contains(file, "/nn/modules/module.py"):
		return moduleTraits(function)
	case strings.HasSuffix(file, "/nn/utils/clip_grad.py"):
		return isOptimizer // between backward and step: norms and temporaries of gradients
	case strings.Contains(file, "/nn/parallel/"):
		return parallelTraits(file)
	case strings.Contains(file, "/nn/modules/"), strings.Contains(file, "/nn/functional.py"):
		return layerTraits(file, function)
	case strings.Contains(file, "/optim/"):
		return optimizerTraits(file, function)
	case strings.HasSuffix(file, "/autograd/function.py"):
		if function == "apply" {
			return isApply
		}
	case strings.Contains(file, "/autograd/"), strings.HasSuffix(file, "/_tensor.py"):
		return backwardTraits(function)
	case strings.Contains(file, "/utils/checkpoint.py"):
		if function == "recompute_fn" || function == "unpack_hook" || function == "backward" {
			return isRecompute
		}
	case strings.Contains(file, "/utils/data/"):
		return isData
	case strings.HasSuffix(file, "/serialization.py"):
		if strings.Contains(function, "save") {
			return isSave
		}
		return isLoad | isRead
	case strings.Contains(file, "/cuda/graphs.py"):
		return isGraph
	case strings.Contains(file, "/distributed/"):
		return distributedTraits(file, function)
	case strings.Contains(file, "/_inductor/"), strings.Contains(file, "/_dynamo/"):
		return isCompiled
	}
	return 0
}

func moduleTraits(function string) trait {
	switch function {
	case "_call_impl", "_wrapped_call_impl", "_slow_forward":
		return isModuleCall
	case "_apply", "to", "cuda", "half", "bfloat16", "float", "double":
		return isModuleMove
	case "load_state_dict", "_load_from_state_dict":
		return isLoad
	case "state_dict":
		return isSave
	}
	return 0
}

func layerTraits(file, function string) trait {
	switch {
	case function == "__init__" || function == "reset_parameters":
		return isConstructor
	case function == "cross_entropy" || function == "nll_loss" || strings.HasSuffix(file, "/loss.py"):
		return isLoss
	case strings.Contains(function, "attention"):
		return isAttention
	}
	return 0
}

func parallelTraits(file string) trait {
	if strings.HasSuffix(file, "/distributed.py") {
		return isBucket
	}
	for _, name := range []string{"data_parallel.py", "scatter_gather.py", "replicate.py", "comm.py", "parallel_apply.py"} {
		if strings.HasSuffix(file, "/"+name) {
			return isParallel
		}
	}
	return 0
}

func optimizerTraits(file, function string) trait {
	if function == "__init__" {
		return isOptimizerState // Adagrad makes its sums when it is constructed
	}
	if function == "zero_grad" || strings.HasSuffix(file, "/lr_scheduler.py") || strings.HasSuffix(file, "/swa_utils.py") {
		return 0
	}
	if strings.Contains(function, "state_dict") {
		return isLoad // optimizer.load_state_dict copies the state to the parameters' device
	}
	if strings.Contains(function, "_init_group") || strings.Contains(function, "init_state") {
		return isOptimizer | isOptimizerState
	}
	return isOptimizer
}

func backwardTraits(function string) trait {
	switch function {
	case "_make_grads":
		return isBackward | isRoot
	case "backward", "_engine_run_backward", "grad":
		return isBackward
	}
	return 0
}

func distributedTraits(file, function string) trait {
	if function == "full_tensor" || strings.HasSuffix(file, "_state_dict_utils.py") && strings.Contains(function, "gather") {
		return isGather // a DTensor made whole, a state dict gathered (torch/distributed/tensor/_api.py, _state_dict_utils.py)
	}
	if !strings.Contains(file, "/fsdp/") {
		return 0
	}
	if strings.Contains(function, "grad") {
		return 0 // unsharded gradients, not parameters
	}
	if strings.Contains(function, "unshard") || strings.Contains(function, "all_gather") || strings.Contains(function, "full_tensor") {
		return isGather
	}
	return 0
}

// libraryTraits knows the libraries people train with.
func libraryTraits(file, function string) trait {
	t := isLibrary
	switch {
	case strings.HasSuffix(file, "/safetensors/torch.py"):
		t |= isLoad | isRead
	case strings.Contains(function, "from_pretrained") || strings.Contains(function, "_load_pretrained") || strings.Contains(function, "from_config"):
		t |= isLoad
	case strings.Contains(file, "/optim") && (function == "step" || strings.Contains(function, "init_state")):
		t |= isOptimizer
		if strings.Contains(function, "init_state") {
			t |= isOptimizerState
		}
	case strings.Contains(file, "/zero/") && strings.Contains(function, "gather"):
		t |= isGather
	case strings.Contains(file, "loss_utils.py") || strings.Contains(function, "Loss"):
		t |= isLoss
	case strings.Contains(function, "attention"):
		t |= isAttention
	}
	return t | evalTrait(function)
}

// evalWords are function names, or their first or last word, that say evaluation. Training code also predicts and generates
// (predict_noise, generate_mask), so that those count only as whole names.
var evalWords = map[string]bool{"eval": true, "evaluate": true, "evaluation": true, "val": true, "validate": true, "validation": true, "valid": true, "test": true, "inference": true, "infer": true}

var evalNames = map[string]bool{"predict": true, "generate": true, "prediction_step": true, "prediction_loop": true, "predict_step": true, "predict_loop": true, "sample_step": true}

// evalTrait hears evaluation in a function's name.
func evalTrait(function string) trait {
	name := strings.Trim(strings.ToLower(function), "_")
	if strings.Contains(name, "train") || strings.Contains(name, "fit") {
		return 0 // train_and_eval does both; what evaluates inside it has a name of its own
	}
	words := strings.Split(name, "_")
	if evalNames[name] || evalWords[words[0]] || evalWords[words[len(words)-1]] {
		return isEval
	}
	return 0
}

// NamesEval tells whether a function's name says evaluation.
func NamesEval(function string) bool { return evalTrait(function)&isEval != 0 }

// IsUserFile tells whether a file is the user's own code, by its path.
func IsUserFile(file string) bool {
	file = strings.ReplaceAll(file, `\`, "/")
	return !ownProbe(file) && !inTorch(file) && !generated(file) && !standard(file) && !installed(file)
}
