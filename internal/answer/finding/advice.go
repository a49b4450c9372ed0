package finding

import (
	"github.com/plimsoll/plimsoll/internal/answer/report"
	release "github.com/plimsoll/plimsoll/internal/torch"
)

// Whom remedies are for. A framework is anything whose settings matter: PyTorch, a server, a UI, a batch system.
var (
	anyone    = report.Applies{}
	torch     = on(PyTorch)
	training  = doing(torch, Training)
	inference = doing(torch, Inference)
	cuda      = with(torch, "cuda")
	nvidia    = with(anyone, "cuda")
	amd       = with(anyone, "hip")
	mps       = with(torch, "mps")
	llama     = on("llama.cpp", "ollama")
	vllm      = on("vllm")
	sglang    = on("sglang")
	tgi       = on("tgi")
	trtllm    = on("tensorrt-llm")
	comfy     = on("comfyui")
	webui     = on("sd-webui")
	diffusers = on("diffusers")
	jax       = on("jax")
	tf        = on("tensorflow")
	cupy      = on("cupy")
	cudf      = on("cudf")
	mlx       = on("mlx")
	ort       = on("onnxruntime")
	// expandable segments need PyTorch 2.1 and are not on Windows:
	// https://github.com/pytorch/pytorch/blob/v2.11.0/c10/cuda/CUDACachingAllocator.cpp (PYTORCH_C10_DRIVER_API_SUPPORTED).
	expandable = report.Applies{Framework: []string{PyTorch}, Backend: []string{"cuda"}, OS: []string{"linux"}, Torch: release.V2_1.String()}
)

func on(frameworks ...string) report.Applies { return report.Applies{Framework: frameworks} }

func with(to report.Applies, backends ...string) report.Applies {
	to.Backend = backends
	return to
}

func doing(to report.Applies, work ...string) report.Applies {
	to.Work = work
	return to
}

func under(to report.Applies, systems ...string) report.Applies {
	to.OS = systems
	return to
}

// do is a remedy without a command.
func do(to report.Applies, action string) Remedy { return Remedy{Action: action, For: to} }

// frees is a remedy that gives back the bytes of the finding.
func frees(to report.Applies, action string) Remedy {
	return Remedy{Action: action, For: to, Frees: true}
}

// numerics is a remedy that changes what is computed.
func numerics(to report.Applies, action string) Remedy {
	return Remedy{Action: action, For: to, Numerics: true}
}

// halve costs nothing but a line.
const halve = "halve the micro-batch and accumulate over two: same training"

// findHolders says how to see who is on a device, by backend.
var findHolders = []Remedy{
	frees(under(nvidia, "linux"), "find out who they are: plimsoll watch --once, or nvidia-smi; stop them if they are yours, or wait"),
	frees(under(nvidia, "windows"), "find out who they are: nvidia-smi, or Task Manager (Details, column \"Dedicated GPU memory\"); close them"),
	frees(amd, "find out who they are: rocm-smi --showpids; stop them if they are yours, or wait"),
	frees(with(anyone, "xpu"), "find out who they are: xpu-smi ps; stop them if they are yours, or wait"),
	frees(with(anyone, "npu"), "find out who they are: npu-smi info; stop them if they are yours, or wait"),
	frees(with(anyone, "mps"), "close other programs that use the GPU: it shares the computer's memory"),
	{Action: "find out who else uses the device", Last: true},
}

// otherDevice says how to choose another device, by backend.
var otherDevice = []Remedy{
	{Action: "use another GPU: CUDA_VISIBLE_DEVICES=1", Command: "export CUDA_VISIBLE_DEVICES=1", For: under(nvidia, "linux"), Frees: true},
	{Action: "use another GPU: HIP_VISIBLE_DEVICES=1", Command: "export HIP_VISIBLE_DEVICES=1", For: amd, Frees: true},
	{Action: "use another NPU: ASCEND_RT_VISIBLE_DEVICES=1", Command: "export ASCEND_RT_VISIBLE_DEVICES=1", For: with(anyone, "npu"), Frees: true},
}

// seeOthers says how to see who else is on a device, by backend.
var seeOthers = []Remedy{
	do(under(nvidia, "linux"), "see who else is on the GPU: plimsoll watch --once, or nvidia-smi"),
	do(under(nvidia, "windows"), "see who else is on the GPU: nvidia-smi, or Task Manager"),
	do(amd, "see who else is on the GPU: rocm-smi --showpids"),
	do(with(anyone, "xpu"), "see who else is on the GPU: xpu-smi ps"),
	do(with(anyone, "npu"), "see who else is on the NPU: npu-smi info"),
}

// smallerModel is for weights that do not fit.
var smallerModel = []Remedy{
	do(llama, "put fewer layers on the GPU: -ngl 20 (Ollama: /set parameter num_gpu 20); the rest runs on the CPU"),
	numerics(llama, "a smaller quantisation of the model (Q4_K_M, Q3_K_M) or a smaller model"),
	do(on("llama.cpp"), "several GPUs: --split-mode layer, --tensor-split"),
	do(vllm, "several GPUs: --tensor-parallel-size 2; or part of the weights on the CPU: --cpu-offload-gb 8"),
	numerics(vllm, "a quantised model: AWQ, GPTQ, or --quantization fp8"),
	do(sglang, "several GPUs: --tp 2"),
	numerics(sglang, "a quantised model: AWQ, GPTQ, or --quantization fp8"),
	do(tgi, "several GPUs: --num-shard 2"),
	numerics(tgi, "a quantised model: --quantize awq, gptq or bitsandbytes-nf4"),
	do(trtllm, "several GPUs: build with --tp_size 2; or a quantised engine (FP8, INT4 AWQ)"),
	numerics(comfy, "an fp8 or GGUF version of the model; start ComfyUI with --lowvram"),
	do(webui, "start the web UI with --medvram, or --lowvram for less than 4 GB"),
	do(diffusers, "pipe.enable_model_cpu_offload(), or pipe.enable_sequential_cpu_offload() for the least memory"),
	numerics(mlx, "a quantised model: mlx_lm.convert -q, or one from mlx-community with 4bit in its name"),
	numerics(on("dispatch"), "a smaller model, or the same in 4 bits: BitsAndBytesConfig(load_in_4bit=True)"),
	do(on("dispatch"), "let part of it run on the CPU: llm_int8_enable_fp32_cpu_offload=True and a device_map of your own, as the message says; or use several GPUs"),
	numerics(doing(torch, Inference, Diffusion), "load in 16 bits or quantised: from_pretrained(…, dtype=torch.bfloat16) or quantization_config=BitsAndBytesConfig(load_in_4bit=True)"),
	do(doing(on("transformers"), Inference, Serving), `spread it over several GPUs and the CPU: device_map="auto"`),
	numerics(training, "load in 16 bits, or quantise the base and train adapters (QLoRA): from_pretrained(…, dtype=torch.bfloat16)"),
	do(training, "shard over several GPUs: FSDP2 or ZeRO-3; with DeepSpeed also offload_param and offload_optimizer to the CPU"),
	numerics(doing(torch, Unstated), "load the weights in 16 bits or quantised: from_pretrained(…, dtype=torch.bfloat16)"),
	do(doing(torch, Unstated), "spread the model over several GPUs or the CPU"),
	do(mps, "close other programs: the GPU shares the computer's memory"),
	numerics(jax, "parameters in bfloat16; shard them over the devices (jax.sharding)"),
	numerics(on("tensorflow", "paddle", "mxnet", "mindspore"), "weights in 16 bits, or a smaller model"),
	numerics(on("onnxruntime", "ctranslate2", "tensorrt"), "a smaller or quantised model (int8, float16)"),
	{Action: "a smaller or quantised model, or several devices", Last: true},
}

// lessAtOnce is for a computation that needs too much at once.
var lessAtOnce = []Remedy{
	do(vllm, "fewer requests at once: a lower --max-num-seqs, --max-num-batched-tokens; shorter ones: --max-model-len"),
	do(vllm, "leave room beside vLLM's cache: a lower --gpu-memory-utilization; --enforce-eager saves CUDA graphs"),
	do(sglang, "leave room beside the cache: a lower --mem-fraction-static; a lower --chunked-prefill-size, --cuda-graph-max-bs"),
	do(tgi, "smaller batches: a lower --max-batch-prefill-tokens, --max-total-tokens"),
	do(trtllm, "smaller batches: a lower max_batch_size, max_num_tokens; leave room: kv_cache_free_gpu_memory_fraction 0.8"),
	do(llama, "a smaller context: -c 8192 (Ollama: num_ctx); a smaller batch: -b 256 -ub 256; fewer layers on the GPU: -ngl"),
	do(comfy, "a smaller image or batch; VAE Decode (Tiled) in place of VAE Decode"),
	do(comfy, "start ComfyUI with --lowvram (or --novram); fp8 or GGUF versions of the model"),
	do(webui, "a smaller image or batch; --medvram (or --lowvram); --xformers or --opt-sdp-attention; Tiled VAE for large images"),
	do(diffusers, "pipe.enable_vae_tiling(), pipe.enable_attention_slicing(), pipe.enable_model_cpu_offload()"),
	do(doing(torch, Diffusion), "a smaller image, fewer frames or a batch of one; work in tiles; half precision"),
	do(training, halve),
	do(training, "activation checkpointing: model.gradient_checkpointing_enable() or torch.utils.checkpoint"),
	numerics(training, "16-bit autocast: torch.autocast(device_type, dtype=torch.bfloat16) around forward and loss"),
	do(inference, "smaller batches or shorter inputs; torch.inference_mode() around the call, so that nothing is kept for backward"),
	numerics(inference, "half precision: model.half(), or dtype=torch.float16 when loading"),
	do(doing(torch, Data), "process the data in smaller pieces, and move results to the CPU"),
	do(doing(torch, Unstated), "make one pass smaller: batch size, image size or sequence length"),
	numerics(doing(torch, Unstated), "half precision; without training also torch.inference_mode(), with training activation checkpointing"),
	{Action: "raise the limit with care, the system may stall: PYTORCH_MPS_HIGH_WATERMARK_RATIO=0.0", Command: "export PYTORCH_MPS_HIGH_WATERMARK_RATIO=0.0", For: mps},
	do(doing(jax, Training), "a smaller batch, jax.checkpoint (remat) around layers, bfloat16, donate_argnums for the old state"),
	do(doing(jax, Inference, Data, Unstated), "smaller batches: split the input and use jax.lax.map in place of vmap"),
	do(with(jax, "cuda", "hip", Unstated), "JAX holds 75% of the GPU from the start: with other programs on it set XLA_PYTHON_CLIENT_MEM_FRACTION=.5 or XLA_PYTHON_CLIENT_PREALLOCATE=false"),
	do(with(on("jax", "torch_xla"), "tpu"), "shard over more cores, or use a TPU with more HBM per core"),
	do(doing(tf, Training, Unstated), "a smaller batch_size; tf.keras.mixed_precision.set_global_policy(\"mixed_float16\")"),
	do(doing(tf, Inference), "a smaller batch_size in model.predict"),
	do(tf, "TensorFlow takes the whole GPU: tf.config.experimental.set_memory_growth(gpu, True) if other programs share it"),
	do(doing(on("paddle"), Training, Unstated), "a smaller batch size; paddle.amp.auto_cast; recompute in the model's configuration"),
	do(on("paddle"), "FLAGS_allocator_strategy=auto_growth, and a lower FLAGS_fraction_of_gpu_memory_to_use if others share the GPU"),
	do(on("mxnet", "mindspore"), "a smaller batch or input"),
	do(doing(cupy, Training), "a smaller batch or smaller samples"),
	do(cupy, "work in chunks; del arrays you no longer need, then cupy.get_default_memory_pool().free_all_blocks()"),
	do(cupy, "let the driver use main memory as well (slower): cupy.cuda.set_allocator(cupy.cuda.malloc_managed)"),
	do(cudf, "read in parts: dask_cudf.read_csv or usecols=, dtype= with narrower types"),
	do(cudf, "let the driver use main memory as well (slower): rmm.reinitialize(managed_memory=True)"),
	do(on("xgboost"), "tree_method=\"hist\" with a smaller max_bin, or external memory (QuantileDMatrix)"),
	do(on("numba", "pycuda"), "work in chunks and free arrays before the next"),
	do(ort, "a smaller input or batch; limit the arena: gpu_mem_limit, arena_extend_strategy=kSameAsRequested"),
	do(on("tensorrt"), "a smaller workspace (--memPoolSize=workspace:2048), batch or input"),
	do(on("ctranslate2"), "a smaller beam_size or batch; compute_type=\"int8_float16\"; a smaller model"),
	do(mlx, "a shorter prompt or context; a quantised model; a quantised cache (kv_bits=8)"),
	do(on("metal"), "close other programs: the GPU shares the computer's memory"),
	do(on("other", "vulkan", "opencv", "faiss", "caffe", "tvm", "cuda.jl"), "less at once: smaller inputs, batches or tiles"),
	{Action: "less at once: smaller inputs or batches", Last: true},
}

// cacheRoom is for a server whose KV cache has no room.
var cacheRoom = []Remedy{
	do(vllm, "shorter requests: a lower --max-model-len (max_model_len)"),
	do(vllm, "give vLLM more of the GPU: --gpu-memory-utilization 0.95, if nothing else runs on it"),
	numerics(vllm, "a cache of half the size: --kv-cache-dtype fp8; or a quantised model"),
	do(vllm, "several GPUs: --tensor-parallel-size 2"),
	do(sglang, "a larger share for the cache: --mem-fraction-static 0.9; shorter requests: --context-length"),
	numerics(sglang, "a cache of half the size: --kv-cache-dtype fp8_e5m2; or a quantised model"),
	do(sglang, "fewer requests at once: --max-running-requests; several GPUs: --tp 2"),
	do(tgi, "a lower --max-batch-prefill-tokens, --max-input-tokens and --max-total-tokens"),
	do(tgi, "several GPUs: --num-shard 2; or a quantised model: --quantize"),
	do(trtllm, "shorter requests: a lower max_seq_len, max_num_tokens; a larger kv_cache_free_gpu_memory_fraction"),
	do(on("ollama"), "a smaller context: /set parameter num_ctx 4096, or OLLAMA_CONTEXT_LENGTH=4096"),
	do(on("ollama"), "a cache of half the size: OLLAMA_FLASH_ATTENTION=1 OLLAMA_KV_CACHE_TYPE=q8_0"),
	do(on("llama.cpp"), "a smaller context: -c 8192; a smaller batch: -b 256 -ub 256"),
	numerics(on("llama.cpp"), "a cache of half the size: -fa on --cache-type-k q8_0 --cache-type-v q8_0"),
	do(llama, "fewer layers on the GPU: -ngl 20 (Ollama: num_gpu)"),
	do(mlx, "a shorter context, or a quantised cache (kv_bits=8)"),
	do(inference, "shorter prompts or fewer new tokens; a quantised cache: cache_implementation=\"quantized\""),
	{Action: "shorter requests, fewer at once, or several GPUs", Last: true},
}

// hostRoom is for main memory that ran out, by who says so.
var hostRoom = []Remedy{
	do(on("shm"), "a larger /dev/shm: docker run --ipc=host (or --shm-size=16g); in Kubernetes an emptyDir with medium: Memory at /dev/shm"),
	do(on("slurm"), "ask for more: #SBATCH --mem=64G (or --mem-per-cpu); seff JOBID shows what it used"),
	do(on("lsf"), "ask for more: bsub -M 64GB -R \"rusage[mem=64GB]\""),
	do(on("kubernetes"), "raise resources.limits.memory of the container, and requests.memory with it; kubectl describe pod shows both"),
	do(on("container"), "raise the container's limit: docker run --memory=64g"),
	do(on("colab", "kaggle"), "read the data in parts or as float32/uint8, delete what is no longer needed, or take a runtime with more RAM"),
	do(on("windows"), "enlarge the paging file: System > Advanced > Performance > Virtual memory, at least the size of the models on a fast drive; then restart"),
	do(on("windows"), "start fewer processes that load CUDA: num_workers=0 or 2 in the DataLoader; close other programs"),
	do(on("ray"), "fewer tasks at once: num_cpus or memory= per task; RAY_memory_usage_threshold only moves the limit"),
	do(on("ollama", "llama.cpp"), "a smaller model or quantisation, a smaller context (-c, num_ctx), or more RAM or swap"),
	do(vllm, "a lower --swap-space"),
	do(on("numpy", "arrow", "rust", "pandas", "r", "opencv", "sklearn"), "work in pieces: chunks of the file, np.memmap, or an iterator"),
	numerics(on("numpy", "pandas", "sklearn"), "a narrower type: float32 or uint8 in place of float64"),
	do(on("yarn", "dask"), "raise the worker's memory limit, or use more and smaller partitions"),
	do(on("dataloader"), "fewer DataLoader workers (each holds a copy of the dataset's Python objects), a smaller prefetch_factor"),
	do(on("dataloader"), "keep samples in NumPy or Arrow arrays, not in lists of Python objects: reference counts make forked workers copy them"),
	do(doing(torch, Inference, Serving, Diffusion), `load without a second copy in main memory: low_cpu_mem_usage=True, device_map="auto", safetensors`),
	do(doing(on("killed"), Training), "fewer processes that each load the whole model: load on rank 0 and broadcast, or low_cpu_mem_usage=True; less offloading to the CPU"),
	do(on("killed"), "check what was killed and why: dmesg -T | grep -i oom, or the memory the scheduler reports; then use less, or ask for more RAM"),
	{Action: "use less main memory at once, close other programs, or take a machine with more RAM", Last: true},
}

// libraryRoom is for libraries that got no memory beside the framework's cache.
var libraryRoom = []Remedy{
	do(vllm, "leave room for libraries: a lower --gpu-memory-utilization"),
	do(sglang, "leave room for libraries: a lower --mem-fraction-static"),
	do(doing(torch, Training), "leave room: torch.cuda.set_per_process_memory_fraction(0.9), or a smaller batch"),
	do(doing(torch, Inference, Diffusion, Data, Unstated), "leave room: torch.cuda.set_per_process_memory_fraction(0.9), or smaller inputs"),
	do(tf, "TensorFlow takes the whole GPU and leaves its libraries nothing: tf.config.experimental.set_memory_growth(gpu, True), or TF_FORCE_GPU_ALLOW_GROWTH=true"),
	do(jax, "JAX takes 75% of the GPU and leaves its libraries the rest: XLA_PYTHON_CLIENT_MEM_FRACTION=.6"),
	do(on("ctranslate2", "onnxruntime", "cupy", "paddle", "mxnet", "tensorrt", "llama.cpp"), "leave room: a smaller model, batch or input"),
	{Action: "leave more room on the device: smaller inputs, or a smaller share for the cache of the framework", Last: true},
}
