package origin

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
	switch {
	case inTorch(file):
		return t | torchTraits(file, f.Function)
	case installed(file):
		return t | libraryTraits(file, f.Function)
	}
	return t | isUser | evalTrait(f.Function)
}

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

func inTorch(file string) bool {
	return strings.Contains(file, "-packages/torch/") || strings.HasPrefix(file, "torch/") || strings.Contains(file, "/torch/nn/") || strings.Contains(file, "/torch/optim/") || strings.Contains(file, "/torch/autograd/")
}

// installed tells code that a person did not write for this job.
func installed(file string) bool {
	return strings.Contains(file, "-packages/") || strings.Contains(file, "/lib/python") || strings.Contains(file, "/Lib/") ||
		strings.HasPrefix(file, "<frozen") || strings.HasPrefix(file, "<__array_function__") || strings.Contains(file, "torchinductor")
}

// torchTraits knows PyTorch's own files.
func torchTraits(file, function string) trait {
	switch {
	case strings.Contains(file, "/nn/modules/module.py"):
		return moduleTraits(function)
	case strings.Contains(file, "/nn/parallel/"):
		return parallelTraits(file)
	case strings.Contains(file, "/nn/modules/"), strings.Contains(file, "/nn/functional.py"):
		return layerTraits(file, function)
	case strings.Contains(file, "/optim/"):
		return optimizerTraits(file, function)
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
		return isLoad
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
	for _, name := range []string{"data_parallel.py", "scatter_gather.py", "replicate.py", "comm.py", "parallel_apply.py"} {
		if strings.HasSuffix(file, "/"+name) {
			return isParallel
		}
	}
	return 0
}

func optimizerTraits(file, function string) trait {
	if function == "zero_grad" || function == "__init__" || strings.HasSuffix(file, "/lr_scheduler.py") {
		return 0
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
	case "backward", "_engine_run_backward", "grad", "apply":
		return isBackward
	}
	return 0
}

func distributedTraits(file, function string) trait {
	if !strings.Contains(file, "/fsdp/") {
		return 0
	}
	if strings.Contains(function, "unshard") || strings.Contains(function, "all_gather") || strings.Contains(function, "full_tensor") {
		return isGather
	}
	return 0
}

// libraryTraits knows the libraries people train with.
func libraryTraits(file, function string) trait {
	t := trait(0)
	if !strings.Contains(file, "importlib") && !strings.HasPrefix(file, "<frozen") && !strings.Contains(file, "/lib/python3") || strings.Contains(file, "-packages/") {
		t = isLibrary
	}
	switch {
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

// evalTrait hears evaluation in a function's name.
func evalTrait(function string) trait {
	name := strings.ToLower(function)
	for _, word := range []string{"eval", "valid", "test_", "infer", "predict", "generate"} {
		if strings.Contains(name, word) {
			return isEval
		}
	}
	if name == "test" {
		return isEval
	}
	return 0
}
