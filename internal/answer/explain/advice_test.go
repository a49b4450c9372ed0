package explain

import (
	"regexp"
	"testing"

	"github.com/plimsoll/plimsoll/internal/answer/report"
)

// foreign is advice that must not reach some askers: words of a remedy, and to whom they are foreign. It shares nothing with the catalogue's own marks.
var foreign = []struct {
	words *regexp.Regexp
	to    func(m *report.Message) bool
}{
	{regexp.MustCompile(`torch\.|PYTORCH_|DataLoader|from_pretrained|FSDP|ZeRO|torchrun`), func(m *report.Message) bool { return !onTorch[m.Framework] }},
	{regexp.MustCompile(`nvidia-smi|CUDA_VISIBLE|PYTORCH_CUDA|NCCL_|fuser -v /dev/nvidia|plimsoll watch`), func(m *report.Message) bool { return m.Backend != "cuda" && m.Backend != "hip" }},
	{regexp.MustCompile(`nvidia-smi|CUDA_VISIBLE|PYTORCH_CUDA`), func(m *report.Message) bool { return m.Backend == "hip" || m.Backend == "mps" || m.Backend == "npu" }},
	{regexp.MustCompile(`micro-batch|gradient_checkpointing|optimizer|LoRA|8-bit Adam|accumulate|plimsoll (run|predict|fit)`), func(m *report.Message) bool { return m.Work != "training" && m.Work != "" }},
	{regexp.MustCompile(`expandable_segments:True \(`), func(m *report.Message) bool { return m.OS == "windows" }},
	{regexp.MustCompile(`XLA_PYTHON|jax\.`), func(m *report.Message) bool { return m.Framework != "jax" }},
	{regexp.MustCompile(`tf\.|TF_`), func(m *report.Message) bool { return m.Framework != "tensorflow" }},
	{regexp.MustCompile(`max-model-len|gpu-memory-utilization`), func(m *report.Message) bool { return m.Work != "serving" }},
	{regexp.MustCompile(`-ngl|num_ctx`), func(m *report.Message) bool { return m.Framework != "llama.cpp" && m.Framework != "ollama" }},
	{regexp.MustCompile(`#SBATCH`), func(m *report.Message) bool {
		return m.Framework != "slurm" && m.Library != "slurm" && m.Library != "" && m.Library != "kernel"
	}},
	{regexp.MustCompile(`paging file`), func(m *report.Message) bool { return m.OS == "linux" || m.OS == "macos" }},
}

var onTorch = map[string]bool{"pytorch": true, "vllm": true, "sglang": true, "transformers": true, "accelerate": true, "dataloader": true, "directml": true, "windows": true,
	"killed": true, "kernel": true, "slurm": true, "": true, "cpu": true, "ray": true, "host-error": true}

// checkAdvice fails where an answer offers something that belongs to another world, or does not say for whom it is.
func checkAdvice(t *testing.T, name string, r *report.Explain) {
	t.Helper()
	if r.Message == nil {
		return
	}
	for _, f := range r.Findings {
		if len(f.Remedies) == 0 {
			t.Errorf("%s: %s offers nothing", name, f.ID)
		}
		for _, m := range f.Remedies {
			if m.AppliesTo == nil {
				t.Errorf("%s: %s does not say for whom it is: %s", name, f.ID, m.Action)
			}
			for _, no := range foreign {
				if no.words.MatchString(m.Action) && no.to(r.Message) {
					t.Errorf("%s (%s, %s, %s, %s): %s offers what belongs elsewhere: %s", name, r.Message.Framework, r.Message.Backend, r.Message.Work, r.Message.OS, f.ID, m.Action)
				}
			}
		}
	}
}

const sentences = ". GPU 0 has a total capacity of 23.64 GiB of which 20.00 MiB is free. Including non-PyTorch memory, this process has 23.60 GiB memory in use. Of the allocated memory 22.90 GiB is allocated by PyTorch, and 62.00 MiB is reserved by PyTorch but unallocated."

// Messages of many worlds, what each must be told first, and who is asking.
func TestAdviceFitsTheAsker(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, id, framework, work, text string }{
		{"training", "activations-dominate", "pytorch", "training", "{'loss': 2.1, 'grad_norm': 0.9, 'epoch': 0.3}\ntorch.OutOfMemoryError: CUDA out of memory. Tried to allocate 96.00 MiB" + sentences},
		{"a batch of prompts", "activations-dominate", "pytorch", "inference", "  File \"run.py\", line 12, in answer\n    out = model.generate(**inputs, max_new_tokens=512)\n  File \"/x/site-packages/transformers/generation/utils.py\", line 2200, in _sample\n    outputs = self(**model_inputs)\ntorch.OutOfMemoryError: CUDA out of memory. Tried to allocate 896.00 MiB" + sentences},
		{"ComfyUI", "activations-dominate", "pytorch", "diffusion", "!!! Exception during processing !!! Allocation on device\n  File \"/opt/ComfyUI/nodes.py\", line 296, in decode\n    images = vae.decode(samples[\"samples\"])\ntorch.OutOfMemoryError: Allocation on device"},
		{"vLLM in a forward pass", "kv-cache", "pytorch", "serving", "(EngineCore_DP0 pid=42) ERROR 09-10 10:11:12 [core.py:700] torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 496.00 MiB" + sentences},
		{"vLLM's cache", "kv-cache", "vllm", "serving", "ValueError: No available memory for the cache blocks. Try increasing `gpu_memory_utilization` when initializing the engine."},
		{"vLLM beside others", "other-process", "vllm", "serving", "ValueError: Free memory on device cuda:0 (10.50/23.64 GiB) on startup is less than desired GPU memory utilization (0.9, 21.28 GiB)."},
		{"SGLang", "kv-cache", "sglang", "serving", "RuntimeError: Not enough memory. Please try to increase --mem-fraction-static."},
		{"llama.cpp's weights", "model-load", "llama.cpp", "inference", "load_tensors: loading model tensors\nggml_backend_cuda_buffer_type_alloc_buffer: allocating 17204.50 MiB on device 0: cudaMalloc failed: out of memory\nalloc_tensor_range: failed to allocate CUDA0 buffer of size 18040225792"},
		{"llama.cpp's context", "kv-cache", "llama.cpp", "inference", "llama_kv_cache: size = 16384.00 MiB\nggml_backend_cuda_buffer_type_alloc_buffer: allocating 8204.50 MiB on device 0: cudaMalloc failed: out of memory\nggml_gallocr_reserve_n: failed to allocate CUDA0 buffer of size 8602927104"},
		{"JAX", "activations-dominate", "jax", "training", "  File \"train.py\", line 30, in train_step\n    loss, grads = jax.value_and_grad(loss_fn)(params)\njaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to allocate 4294967296 bytes."},
		{"a TPU program", "logits", "jax", "", "XlaRuntimeError: RESOURCE_EXHAUSTED: Ran out of memory in memory space hbm. Used 17.25G of 15.48G hbm.\n\n  Largest program allocations in hbm:\n\n  1. Size: 7.81G\n     Shape: f32[32,2048,32000]{2,1,0}\n"},
		{"TensorFlow", "activations-dominate", "tensorflow", "training", "  File \"fit.py\", line 3, in <module>\n    model.fit(x, y)\nResourceExhaustedError: OOM when allocating tensor with shape[32,256,56,56] and type float on /job:localhost/replica:0/task:0/device:GPU:0 by allocator GPU_0_bfc"},
		{"TensorFlow on a busy GPU", "other-process", "tensorflow", "", "failed to allocate 7.50G (8053063680 bytes) from device: CUDA_ERROR_OUT_OF_MEMORY: out of memory"},
		{"a Mac", "model-too-large", "pytorch", "", "MPS backend out of memory (MPS allocated: 17.50 GB, other allocations: 0.50 GB, max allowed: 18.13 GB). Tried to allocate 2.00 MB on private pool."},
		{"ROCm beside others", "other-process", "pytorch", "", "HIP out of memory. Tried to allocate 0.80 GiB. GPU 0 has a total capacity of 15.98 GiB of which 0.50 GiB is free. Of the allocated memory 2.00 GiB is allocated by PyTorch, and 10.00 MiB is reserved by PyTorch but unallocated."},
		{"Windows, fragmented", "fragmentation", "pytorch", "", "  File \"C:\\Users\\me\\train\\a.py\", line 3, in f\ntorch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 23.65 GiB of which 0.50 GiB is free. Including non-PyTorch memory, this process has 23.10 GiB memory in use. Of the allocated memory 15.00 GiB is allocated by PyTorch, and 7.60 GiB is reserved by PyTorch but unallocated."},
		{"CuPy", "unknown", "cupy", "data", "cupy.cuda.memory.OutOfMemoryError: Out of memory allocating 2,097,152,000 bytes (allocated so far: 9,663,676,416 bytes)."},
		{"cuDF", "dataset-on-gpu", "cudf", "data", "  File \"etl.py\", line 3, in <module>\n    df = cudf.read_csv(\"big.csv\")\nMemoryError: std::bad_alloc: out_of_memory: CUDA error at: /opt/rmm/cuda_memory_resource.hpp:62: cudaErrorMemoryAllocation out of memory"},
		{"an array of pairs", "absurd-request", "numpy", "data", "numpy.core._exceptions._ArrayMemoryError: Unable to allocate 74.5 GiB for an array with shape (100000, 100000) and data type float64"},
		{"an array", "host-oom", "numpy", "data", "numpy.core._exceptions._ArrayMemoryError: Unable to allocate 7.45 GiB for an array with shape (1000000, 1000) and data type float64"},
		{"Slurm", "host-oom", "slurm", "", "slurmstepd: error: Detected 1 oom_kill event in StepId=81.batch. Some of the step tasks have been OOM Killed."},
		{"Kubernetes", "host-oom", "", "", "    Last State:  Terminated\n      Reason:    OOMKilled\n      Exit Code: 0"},
		{"Windows' paging file", "host-oom", "windows", "", "OSError: [WinError 1455] The paging file is too small for this operation to complete. Error loading \"C:\\torch\\lib\\cudnn64_9.dll\""},
		{"weights that need the CPU", "model-load", "transformers", "", "ValueError: Some modules are dispatched on the CPU or the disk. Make sure you have enough GPU RAM to fit the quantized model."},
		{"a model by its name", "model-load", "pytorch", "serving", "from vllm import LLM\nllm = LLM(\"org/Some-Model-13B-chat\")\ntorch.OutOfMemoryError: CUDA out of memory. Tried to allocate 100.00 MiB" + sentences},
		{"ranks on one GPU", "other-process", "pytorch", "", "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 96.00 MiB. GPU 0 has a total capacity of 79.10 GiB of which 20.00 MiB is free. Process 4101 has 26.00 GiB memory in use. Process 4102 has 26.00 GiB memory in use. Including non-PyTorch memory, this process has 26.90 GiB memory in use. Of the allocated memory 26.00 GiB is allocated by PyTorch, and 62.00 MiB is reserved by PyTorch but unallocated."},
		{"a second copy", "model-copies", "pytorch", "", "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 12.50 GiB. GPU 0 has a total capacity of 23.64 GiB of which 10.60 GiB is free. Including non-PyTorch memory, this process has 13.00 GiB memory in use. Of the allocated memory 12.53 GiB is allocated by PyTorch, and 2.00 MiB is reserved by PyTorch but unallocated."},
	} {
		r := explained(t, c.name, c.text)
		if told(r) != c.id {
			t.Errorf("%s: told %s, want %s", c.name, told(r), c.id)
			continue
		}
		if r.Message.Framework != c.framework && c.framework != "" || r.Message.Work != c.work {
			t.Errorf("%s: asked by %s doing %s, want %s doing %s", c.name, r.Message.Framework, r.Message.Work, c.framework, c.work)
		}
		checkAdvice(t, c.name, r)
	}
}

// A message that was cut never replaces a whole one of the same rank.
func TestAWholeMessageIsKeptWhenACutOneFollows(t *testing.T) {
	t.Parallel()
	r := explained(t, "log", "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 23.65 GiB of which 0.50 GiB is free. Including non-PyTorch memory, this process has 23.10 GiB memory in use. Of the allocated memory 15.00 GiB is allocated by PyTorch, and 7.60 GiB is reserved by PyTorch but unallocated.\nfailed with: CUDA out of memory. Tried to allocate 2.00 GiB\n")
	if told(r) != "fragmentation" {
		t.Errorf("told %s", told(r))
	}
}
