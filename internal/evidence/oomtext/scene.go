package oomtext

import (
	"bytes"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// Scene is what the text around a message tells about the program that printed it. Empty is not known.
type Scene struct {
	Stack []string // frameworks and programs it names, those seen most often in their own files first
	OS    string   // linux, windows, macos
	Work  string   // training, inference, serving, diffusion, data
	Tests bool     // a test runner printed it
	// Billions is the size of the model by its name ("Llama-3.1-8B"), 0 unknown; Quantised tells that words of quantisation stand around it.
	Billions  float64
	Quantised bool
	Several   bool // several devices share the work
}

// How far around a message its scene reaches.
const (
	sceneBefore = 12 << 10
	sceneBehind = 4 << 10
	maxScenes   = 64 // looked at in one log; the messages after them share the last one of their speaker
)

// mark is a word that tells something about the scene, in lower case, and how much it weighs.
type mark struct {
	word   string
	value  string
	weight int
}

// stackMarks name frameworks and programs. Files and loggers weigh more than a word in a sentence.
var stackMarks = []mark{
	{"vllm/", "vllm", 3}, {"vllm", "vllm", 2}, {"enginecore", "vllm", 3}, {"sglang/", "sglang", 3}, {"sglang", "sglang", 2}, {"text_generation_server", "tgi", 3}, {"text-generation-launcher", "tgi", 3}, {"text_generation_launcher", "tgi", 3},
	{"tensorrt_llm", "tensorrt-llm", 3}, {"tensorrt-llm", "tensorrt-llm", 3}, {"lmdeploy", "lmdeploy", 3}, {"[trt]", "tensorrt", 3},
	{"comfyui", "comfyui", 3}, {"ksampler", "comfyui", 2}, {"comfy/", "comfyui", 3}, {"stable-diffusion-webui", "sd-webui", 3}, {"sd-webui", "sd-webui", 3}, {"modules/processing.py", "sd-webui", 3}, {"webui.py", "sd-webui", 2},
	{"modules/sd_", "sd-webui", 3}, {"webui-user", "sd-webui", 3}, {"invokeai", "sd-webui", 3}, {"fooocus", "sd-webui", 3}, {"diffusers/", "diffusers", 3}, {"diffusers", "diffusers", 2}, {"stablediffusion", "diffusers", 2},
	{"ollama", "ollama", 3}, {"llama_model_load", "llama.cpp", 3}, {"llama_", "llama.cpp", 2}, {"ggml", "llama.cpp", 3}, {"llama.cpp", "llama.cpp", 3}, {"llama_cpp", "llama.cpp", 3}, {"whisper_", "llama.cpp", 1},
	{"deepspeed", "deepspeed", 3}, {"fsdp", "fsdp", 3}, {"fully_sharded", "fsdp", 3}, {"transformers/", "transformers", 3}, {"from_pretrained", "transformers", 2}, {"lightning", "lightning", 2}, {"accelerate", "accelerate", 2},
	{"trainer.py", "transformers", 2}, {"torch/", "pytorch", 3}, {"torch.", "pytorch", 2}, {"pytorch", "pytorch", 2}, {"torch\\", "pytorch", 3},
	{"tensorflow", "tensorflow", 3}, {"keras", "tensorflow", 2}, {"jaxlib", "jax", 4}, {"jax/", "jax", 3}, {"jax.", "jax", 3}, {"flax", "jax", 2}, {"equinox", "jax", 2}, {"xla_bridge", "jax", 3}, {"torch_xla", "torch_xla", 4}, {"xla_model", "torch_xla", 3},
	{"paddle", "paddle", 3}, {"mxnet", "mxnet", 3}, {"mindspore", "mindspore", 3}, {"cupy", "cupy", 3}, {"chainer", "cupy", 2}, {"cudf", "cudf", 3}, {"rmm", "cudf", 1}, {"numba", "numba", 2}, {"onnxruntime", "onnxruntime", 3}, {"faster_whisper", "ctranslate2", 3}, {"ctranslate2", "ctranslate2", 3},
	{"mlx", "mlx", 3}, {"torch_directml", "directml", 3}, {"torch_npu", "pytorch", 3}, {"xgboost", "xgboost", 3}, {"pandas", "pandas", 2}, {"numpy", "numpy", 1}, {"sklearn", "sklearn", 2}, {"dataloader", "dataloader", 2}, {"num_workers", "dataloader", 2},
	{"slurm", "slurm", 3}, {"srun:", "slurm", 3}, {"sbatch", "slurm", 3}, {"kubelet", "kubernetes", 3}, {"kubectl", "kubernetes", 3}, {"kubernetes", "kubernetes", 3}, {"oomkilled", "kubernetes", 3}, {"container", "container", 1}, {"docker", "container", 2},
	{"raylet", "ray", 3}, {"ray.", "ray", 2}, {"colab", "colab", 3}, {"kaggle", "kaggle", 3}, {"ultralytics", "ultralytics", 3}, {"yolo", "ultralytics", 1}, {"torchrun", "pytorch", 3}, {"torch.distributed", "pytorch", 3},
}

// systemMarks name operating systems.
var systemMarks = []mark{
	{`c:\`, "windows", 3}, {`d:\`, "windows", 3}, {`e:\`, "windows", 3}, {".dll", "windows", 3}, {"winerror", "windows", 4}, {`site-packages\`, "windows", 4}, {"ps c:", "windows", 3}, {"webui-user.bat", "windows", 3}, {"os: nt", "windows", 4},
	{"/users/", "macos", 2}, {"macos", "macos", 3}, {"macbook", "macos", 3}, {"libc++abi", "macos", 3}, {"darwin", "macos", 2}, {"mps backend", "macos", 4}, {"[metal", "macos", 4},
	{"/home/", "linux", 2}, {"/usr/", "linux", 2}, {"/opt/", "linux", 2}, {"/root/", "linux", 2}, {"dist-packages", "linux", 2}, {"slurm", "linux", 3}, {"oom-kill", "linux", 2}, {"/dev/shm", "linux", 2}, {"/mnt/", "linux", 1}, {"/data/", "linux", 1},
}

// workMarks tell what the program was doing.
var workMarks = []mark{
	{".backward(", "training", 6}, {"optimizer.step", "training", 6}, {"trainer.train(", "training", 6}, {"training_step", "training", 5}, {"train_step", "training", 5}, {"train.py", "training", 4}, {"/train", "training", 2}, {"finetun", "training", 4},
	{"fine-tun", "training", 3}, {"pretrain.py", "training", 4}, {"pretrain_", "training", 3}, {"'loss':", "training", 4}, {"grad_norm", "training", 4}, {"epoch", "training", 2}, {"model.fit(", "training", 5}, {"train_one_epoch", "training", 5}, {"def train", "training", 3},
	{"gradient_checkpoint", "training", 4}, {"jvp(", "training", 4}, {"value_and_grad", "training", 5}, {"gradients/", "training", 3}, {"gradient_tape", "training", 4}, {"train_on_batch", "training", 5}, {"lora", "training", 1}, {"dreambooth", "training", 4},
	{"zero_optimization", "training", 4}, {"deepspeed", "training", 2}, {"fsdp", "training", 2}, {"sft", "training", 1}, {"auto_scale_batch_size", "training", 5}, {"batch_size_scaling", "training", 4}, {"firststagefeatureextractor", "training", 1}, {"train_loop", "training", 4}, {"training", "training", 1},
	{".generate(", "inference", 4}, {"inference", "inference", 3}, {"infer", "inference", 1}, {"predict", "inference", 2}, {"transcribe", "inference", 4}, {"pipeline(", "inference", 3}, {"text_generation", "inference", 2}, {"chat", "inference", 1}, {"cli_demo", "inference", 3},
	{"model.eval", "inference", 1}, {"llama_", "inference", 3}, {"ggml", "inference", 3}, {"detect.py", "inference", 4}, {"upscal", "inference", 3}, {"esrgan", "inference", 4}, {"--tile", "inference", 3}, {"demo", "inference", 1}, {"generation/utils.py", "inference", 5}, {"temperature", "inference", 2},
	{"api_server", "serving", 5}, {"vllm", "serving", 4}, {"sglang", "serving", 5}, {"text_generation_server", "serving", 6}, {"text_generation_launcher", "serving", 6}, {"enginecore", "serving", 6}, {"uvicorn", "serving", 3}, {"fastapi", "serving", 3}, {"kv cache", "serving", 3}, {"max_model_len", "serving", 4},
	{"gpu_memory_utilization", "serving", 4}, {"tensorrt_llm", "serving", 4}, {"tritonserver", "serving", 4}, {"llm_engine", "serving", 5}, {"serve", "serving", 1}, {"mem-fraction-static", "serving", 5},
	{"comfyui", "diffusion", 6}, {"ksampler", "diffusion", 5}, {"vae", "diffusion", 3}, {"stable-diffusion", "diffusion", 5}, {"stablediffusion", "diffusion", 4}, {"txt2img", "diffusion", 5}, {"img2img", "diffusion", 5}, {"diffusers", "diffusion", 3}, {"unet", "diffusion", 1}, {"webui", "diffusion", 3}, {"invokeai", "diffusion", 5},
	{"fooocus", "diffusion", 5}, {"sampler", "diffusion", 1}, {"latent", "diffusion", 2}, {"flux", "diffusion", 1}, {"hunyuan3d", "diffusion", 4}, {"sdxl", "diffusion", 4}, {"controlnet", "diffusion", 3},
	{"read_csv", "data", 5}, {"read_parquet", "data", 5}, {"dataframe", "data", 4}, {"cudf", "data", 4}, {"pandas", "data", 3}, {"cupy", "data", 2}, {"preprocess", "data", 3}, {"np.zeros", "data", 2}, {"np.array", "data", 2}, {"dataset.map", "data", 4}, {"load_dataset", "data", 2}, {"concat", "data", 1},
}

// sceneOf weighs the marks of a text.
func sceneOf(text []byte) Scene {
	text = bytes.ToLower(text)
	s := Scene{Tests: bytes.Contains(text, []byte("\ne       ")) || bytes.Contains(text, []byte("=== failures ===")) || bytes.Contains(text, []byte("____ test_"))}
	s.Billions = billions(text)
	s.Quantised, s.Several = mentions(text, quantisedWords), mentions(text, severalWords) || begins(text, severalTimes)
	s.Stack = heaviest(text, stackMarks, 2)
	if os := heaviest(text, systemMarks, 2); len(os) > 0 {
		s.OS = os[0]
	}
	if work := heaviest(text, workMarks, 3); len(work) > 0 {
		s.Work = work[0]
	}
	return s
}

var modelName = regexp.MustCompile(`[a-z0-9.][-_]v?([0-9]{1,3}(?:\.[0-9]{1,2})?)b(?:[^a-z0-9]|$)`)

// Words, not regular expressions: alternatives without a common beginning make Go's matcher walk all of them at every byte.
var (
	quantisedWords = append([]string{"awq", "gptq", "int4", "int8", "4bit", "4-bit", "8bit", "8-bit", "nf4", "gguf", "fp8", "bnb"},
		append(numbered("_q%d_", 2, 8), numbered("-q%d", 2, 8)...)...)
	severalWords = append([]string{"world_size", "tensor-parallel", "tensor_parallel", "fsdp", "deepspeed", "device_map", "--tp", "torchrun"},
		slices.Concat(numbered("zero%d", 2, 3), numbered("zero-%d", 2, 3), numbered("rank%d", 1, 9), numbered("rank %d", 1, 9), numbered("gpus=%d", 2, 9))...)
	severalTimes = []string{"2x", "4x", "8x"}
)

// numbered is a word with each of the numbers in it.
func numbered(format string, from, to int) []string {
	var words []string
	for n := from; n <= to; n++ {
		words = append(words, fmt.Sprintf(format, n))
	}
	return words
}

// mentions says whether one of the words stands anywhere in the text.
func mentions(text []byte, words []string) bool {
	return slices.ContainsFunc(words, func(word string) bool { return bytes.Contains(text, []byte(word)) })
}

// begins says whether something in the text begins with one of the words, as 8x does in "8xH100" and not in "0x08x".
func begins(text []byte, words []string) bool {
	for _, word := range words {
		for rest := text; ; {
			i := bytes.Index(rest, []byte(word))
			if i < 0 {
				break
			}
			if before := len(text) - len(rest) + i - 1; before < 0 || !wordByte(text[before]) {
				return true
			}
			rest = rest[i+1:]
		}
	}
	return false
}

func wordByte(b byte) bool {
	return b == '_' || '0' <= b && b <= '9' || 'a' <= b && b <= 'z' || 'A' <= b && b <= 'Z'
}

// billions reads the size of a model from its name, the largest where there are several.
func billions(text []byte) float64 {
	most := 0.0
	for _, m := range modelName.FindAllSubmatch(text[max(0, len(text)-8<<10):], 20) {
		most = max(most, decimal(string(m[1])))
	}
	return most
}

// heaviest lists the values whose marks weigh at least so much, the heaviest first. Each word counts once.
func heaviest(text []byte, marks []mark, least int) []string {
	weight := map[string]int{}
	var order []string
	for _, m := range marks {
		if !bytes.Contains(text, []byte(m.word)) {
			continue
		}
		if weight[m.value] == 0 {
			order = append(order, m.value)
		}
		weight[m.value] += m.weight
	}
	slices.SortStableFunc(order, func(a, b string) int { return weight[b] - weight[a] })
	return slices.DeleteFunc(order, func(v string) bool { return weight[v] < least })
}

// near is the text right around [start, end) without the message itself.
func (w *window) near(start, end int) string {
	const before, behind = 700, 300
	return strings.ToLower(string(w.text[max(0, start-before):start]) + "\n" + string(w.text[end:min(len(w.text), end+behind)]))
}

// scene is that of the message on lines [first, last] of the window.
func (w *window) scene(start, end int) Scene {
	if w.shared.scenes == 0 {
		return w.lastScene
	}
	w.shared.scenes--
	from := w.lines[w.lineAt(max(0, start-sceneBefore))].start
	w.lastScene = sceneOf(append([]byte(w.label+"\n"), w.text[from:min(len(w.text), end+sceneBehind)]...))
	return w.lastScene
}
