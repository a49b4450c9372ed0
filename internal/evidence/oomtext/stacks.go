package oomtext

// stackPhrases are what other stacks print when a device has no room. Each names where its words come from.
var stackPhrases = []phrase{
	// llama.cpp, whisper.cpp, stable-diffusion.cpp, Ollama: https://github.com/ggml-org/llama.cpp/blob/b6000/ggml/src/ggml-cuda/ggml-cuda.cu (ggml_backend_cuda_buffer_type_alloc_buffer),
	// ggml/src/ggml-backend.cpp and ggml-alloc.c (alloc_tensor_range, ggml_gallocr_reserve_n), ggml-vulkan.cpp, ggml-metal.m, ggml-sycl.cpp.
	{words: "cudamallocfailed:outofmemory", kind: DeviceOOM, format: "ggml", backend: "cuda", near: []string{"ggml", "ondevice"}, opening: "allocating", sizes: []place{behind(requested, "allocating")}},
	{words: "cudamallocfailed:outofmemory", kind: DeviceOOM, format: "mxnet", backend: "cuda", near: []string{"mxnet", "storagemanager", "storage/"}},
	{words: "cudamallocretryfailed:outofmemory", kind: DeviceOOM, format: "mxnet", backend: "cuda"},
	{words: "failedtoallocatecuda", kind: DeviceOOM, format: "ggml", backend: "cuda", sizes: []place{behind(requested, "bufferofsize")}},
	{words: "failedtoallocaterocm", kind: DeviceOOM, format: "ggml", backend: "hip", sizes: []place{behind(requested, "bufferofsize")}},
	{words: "failedtoallocatevulkan", kind: DeviceOOM, format: "ggml", backend: "vulkan", sizes: []place{behind(requested, "bufferofsize")}},
	{words: "failedtoallocatesycl", kind: DeviceOOM, format: "ggml", backend: "xpu", sizes: []place{behind(requested, "bufferofsize")}},
	{words: "failedtoallocatemetal", kind: DeviceOOM, format: "ggml", backend: "mps", sizes: []place{behind(requested, "bufferofsize")}},
	{words: "failedtoallocatecpubuffer", kind: HostOOM, format: "ggml", backend: "cpu", sizes: []place{behind(requested, "bufferofsize")}},
	{words: "failedtoallocatebufferofsize", kind: HostOOM, format: "ggml", backend: "cpu", near: []string{"ggml"}, sizes: []place{behind(requested, "bufferofsize")}},
	{words: "unabletoallocatecuda", kind: DeviceOOM, format: "ggml", purpose: "weights", backend: "cuda", closing: "buffer"},
	{words: "unabletoallocatebackendbuffer", kind: DeviceOOM, format: "ggml", purpose: "weights"},
	{words: "failedtoallocatecomputebuffers", kind: DeviceOOM, format: "ggml", purpose: "compute"},
	{words: "failedtoallocatebufferforkvcache", kind: DeviceOOM, format: "ggml", purpose: "cache"},
	{words: "ggmlalignedmalloc:insufficientmemory", kind: HostOOM, format: "ggml", backend: "cpu", sizes: []place{behind(requested, "attemptedtoallocate")}},
	{words: "ggmlvulkan:devicememoryallocationofsize", kind: DeviceOOM, format: "ggml", backend: "vulkan", closing: "failed", sizes: []place{behind(requested, "allocationofsize")}},
	{words: "erroroutofdevicememory", kind: DeviceOOM, format: "vulkan", backend: "vulkan", not: []string{"urresult"}},
	{words: "vkallocatememoryfailed", kind: DeviceOOM, format: "vulkan", backend: "vulkan"},
	{words: "error:failedtoallocatebuffer,size=", kind: DeviceOOM, format: "ggml", backend: "mps", sizes: []place{behind(requested, "size=")}},
	{words: "modelrequiresmoresystemmemory", kind: HostOOM, format: "ollama", backend: "cpu", sizes: []place{behind(requested, "systemmemory"), behind(free, "isavailable")}},
	{words: "modelrequiresmoregpumemory", kind: DeviceOOM, format: "ollama"},

	// SGLang: https://github.com/sgl-project/sglang/blob/v0.5.3/python/sglang/srt/model_executor/model_runner.py (init_memory_pool, init_torch_distributed), managers/schedule_batch.py.
	{words: "pleasetrytoincrease--mem-fraction-static", kind: CacheFull, format: "sglang", opening: "notenoughmemory"},
	{words: "thememorycapacityisunbalanced", kind: Refused, format: "sglang"},
	{words: "prefilloutofmemory", kind: CacheFull, format: "sglang"},
	{words: "decodeoutofmemory", kind: CacheFull, format: "sglang"},

	// Text Generation Inference: https://github.com/huggingface/text-generation-inference/blob/v3.0.0/server/text_generation_server/models/flash_causal_lm.py (warmup).
	{words: "notenoughmemorytohandle", kind: CacheFull, format: "tgi", near: []string{"prefill", "token", "batch"}},

	// vLLM: https://github.com/vllm-project/vllm/blob/v0.11.0/vllm/v1/worker/gpu_worker.py (determine_available_memory), config (swap space), gpu_model_runner.py (sampler).
	{words: "errorinmemoryprofiling", kind: Refused, format: "vllm", sizes: []place{behind(free, "currentfreememory")}},
	{words: "toolargeswapspace", kind: HostOOM, format: "vllm", backend: "cpu", sizes: []place{behind(requested, "swapspace."), behind(capacity, "outofthe")}},
	{words: "theestimatedmaximummodellengthis", kind: CacheFull, format: "vllm"},

	// TensorRT and TensorRT-LLM: "Error Code 2: OutOfMemory (Requested size was 4378853376 bytes.)", "CUDA runtime error in cudaMalloc(…): out of memory".
	{words: "errorcode2:outofmemory", kind: DeviceOOM, format: "tensorrt", backend: "cuda", sizes: []place{behind(requested, "requestedsizewas")}},
	{words: "requestedamountofgpumemory", kind: DeviceOOM, format: "tensorrt", backend: "cuda", closing: "couldnotbeallocated", sizes: []place{behind(requested, "gpumemory(")}},
	{words: "cudaruntime(outofmemory)", kind: DeviceOOM, format: "tensorrt", backend: "cuda"},
	{words: "cudaerrorinallocate:2(outofmemory)", kind: DeviceOOM, format: "tensorrt", backend: "cuda"},
	{words: "cudaruntimeerrorin", kind: DeviceOOM, format: "tensorrt-llm", backend: "cuda", near: []string{"outofmemory"}, opening: "[tensorrt-llm]", closing: "outofmemory"},
	{words: "impossibletofitinanysequenceinkvcache", kind: CacheFull, format: "tensorrt-llm", backend: "cuda"},

	// CTranslate2: https://github.com/OpenNMT/CTranslate2/blob/v4.5.0/src/cuda/utils.h (CUDA_CHECK).
	{words: "cudafailedwitherroroutofmemory", kind: DeviceOOM, format: "ctranslate2", backend: "cuda"},

	// CuPy: https://github.com/cupy/cupy/blob/v13.3.0/cupy/cuda/memory.pyx (OutOfMemoryError.__init__), and before version 5 "out of memory to allocate N bytes (total N bytes)".
	{words: "outofmemoryallocating", kind: DeviceOOM, format: "cupy", backend: "cuda", near: []string{"allocatedsofar", "cupy"}, closing: ").", sizes: []place{behind(requested, "memoryallocating"), behind(allocated, "allocatedsofar"), behind(allowed, "limitsetto")}},
	{words: "outofmemorytoallocate", kind: DeviceOOM, format: "cupy", backend: "cuda", sizes: []place{behind(requested, "memorytoallocate"), behind(allocated, "(total")}},

	// RMM, cuDF, Thrust: https://github.com/rapidsai/rmm/blob/v24.10.00/include/rmm/detail/error.hpp. CUDA words beat bad_alloc, which they throw.
	{words: "rmmerroroutofmemory", kind: DeviceOOM, format: "rmm", backend: "cuda"},
	{words: "maximumpoolsizeexceeded", kind: DeviceOOM, format: "rmm", backend: "cuda", sizes: []place{behind(requested, "failedtoallocate")}},
	{words: "badalloc", kind: DeviceOOM, format: "rmm", backend: "cuda", near: []string{"cudaerrormemoryallocation", "rmmfailure", "cudaerror"}, not: []string{"xgboost", "memoryallocationerror"}, closing: "outofmemory|cudaerrormemoryallocation|poolsizeexceeded"},
	{words: "memoryallocationerroronworker", kind: DeviceOOM, format: "xgboost", backend: "cuda", closing: "outofmemory|cudaerrormemoryallocation", sizes: []place{behind(free, "freememory:"), behind(requested, "requestedmemory:")}},
	{words: "standardgpuresources:allocfail", kind: DeviceOOM, format: "faiss", backend: "cuda", closing: "outofmemory", sizes: []place{behind(requested, "size")}},
	{words: "cumemallocfailed:outofmemory", kind: DeviceOOM, format: "pycuda", backend: "cuda"},
	{words: "gpuapicall)outofmemory", kind: DeviceOOM, format: "opencv", backend: "cuda"},
	{words: "erroroutofmemoryatline", kind: DeviceOOM, format: "bitsandbytes", backend: "cuda"},
	{words: "(2vs.0)outofmemory", kind: DeviceOOM, format: "caffe", backend: "cuda"},
	{words: "cuda:outofmemory", kind: DeviceOOM, format: "tvm", backend: "cuda", near: []string{"checkfailed", "cudaerror"}},
	{words: "outofgpumemorytryingtoallocate", kind: DeviceOOM, format: "cuda.jl", backend: "cuda", closing: "memorypoolusage", sizes: []place{behind(requested, "tryingtoallocate")}},

	// Paddle: https://github.com/PaddlePaddle/Paddle/blob/v3.0.0/paddle/phi/core/memory/allocation/cuda_allocator.cc.
	{words: "outofmemoryerroronnpu", kind: DeviceOOM, format: "paddle", backend: "npu", sizes: paddleSizes},
	{words: "outofmemoryerroronxpu", kind: DeviceOOM, format: "paddle", backend: "kunlun", sizes: paddleSizes},
	{words: "outofmemoryerrorongpu", kind: DeviceOOM, format: "paddle", backend: "cuda", sizes: paddleSizes},
	{words: "outofmemoryerroron", kind: DeviceOOM, format: "paddle", near: []string{"cannotallocate"}, sizes: paddleSizes},

	// ONNX Runtime: https://github.com/microsoft/onnxruntime/blob/v1.20.0/onnxruntime/core/framework/bfc_arena.cc, core/providers/cuda/cuda_call.cc.
	{words: "failedtoallocatememoryforrequestedbuffer", kind: DeviceOOM, format: "onnxruntime", sizes: []place{behind(requested, "bufferofsize")}},
	{words: "issmallerthanrequestedbytesof", kind: DeviceOOM, format: "onnxruntime", opening: "availablememoryof", sizes: []place{behind(free, "availablememoryof"), behind(requested, "requestedbytesof")}},
	{words: "cudafailure2:outofmemory", kind: DeviceOOM, format: "onnxruntime", backend: "cuda"},

	// MLX: https://github.com/ml-explore/mlx/blob/v0.21.0/mlx/backend/metal/allocator.cpp, device.cpp.
	{words: "whichisgreaterthanthemaximumallowedbuffersize", kind: DeviceOOM, format: "mlx", backend: "mps", opening: "attemptingtoallocate", sizes: []place{behind(requested, "attemptingtoallocate"), behind(allowed, "buffersizeof")}},
	{words: "kiogpucommandbuffercallbackerroroutofmemory", kind: DeviceOOM, format: "metal", backend: "mps", opening: "insufficientmemory"},
	{words: "[mallocorwait]unabletoallocate", kind: DeviceOOM, format: "mlx", backend: "mps", sizes: []place{behind(requested, "unabletoallocate")}},
	{words: "[metal::malloc]unabletoallocate", kind: DeviceOOM, format: "mlx", backend: "mps", sizes: []place{behind(requested, "unabletoallocate")}},

	// DirectML: torch-directml and ONNX Runtime's provider.
	{words: "notenoughgpuvideomemoryavailable", kind: DeviceOOM, format: "directml", backend: "directml", opening: "couldnotallocatetensorwith", sizes: []place{behind(requested, "allocatetensorwith")}},
	{words: "dmlallocatoroutofmemory", kind: DeviceOOM, format: "directml", backend: "directml"},
	{words: "8007000e", kind: DeviceOOM, format: "directml", backend: "directml", near: []string{"notenoughmemory", "onnxruntime", "dml", "outofmemory"}},

	// Ascend: CANN's error codes, MindSpore's allocator.
	{words: "el0004", kind: DeviceOOM, format: "cann", backend: "npu", near: []string{"failedtoallocatememory", "memoryisinsufficient"}, closing: "insufficient"},
	{words: "[drivererror:outofmemory]", kind: DeviceOOM, format: "cann", backend: "npu"},
	{words: "memoryisn'tenoughandallocfailed", kind: DeviceOOM, format: "mindspore", backend: "npu", sizes: []place{behind(requested, "allocsize:")}},
	{words: "outofmemory!!!requestmemorysize", kind: DeviceOOM, format: "mindspore", backend: "npu", sizes: []place{behind(requested, "memorysize:")}},

	// XLA's TPU runtime: "Attempting to reserve 12.06G at the bottom of memory. That was not possible. There are 9.24G free, …".
	{words: "thatwasnotpossible.thereare", kind: DeviceOOM, format: "xla", backend: "tpu", opening: "attemptingto", sizes: []place{behind(requested, "attemptingtoreserve"), behind(requested, "attemptingtoallocate"), behind(free, "thereare")}},

	// Gaudi, Intel's runtimes and OpenVINO, OpenCL.
	{words: "allocationfailedforsize", kind: DeviceOOM, format: "habana", backend: "hpu", near: []string{"devmem", "synapse", "habana"}, sizes: []place{behind(requested, "forsize:")}},
	{words: "erroroutofresources", kind: LibraryOOM, format: "driver", backend: "xpu", maybe: true, near: []string{"nativeapi"}},
	{words: "exceededmaxsizeofmemoryobjectallocation", kind: DeviceOOM, format: "openvino", backend: "xpu", sizes: []place{behind(requested, "requested")}},
	{words: "clmemobjectallocationfailure", kind: DeviceOOM, format: "opencl", backend: "opencl"},

	// TensorFlow: a copy to the device found no room; the runtime could not start.
	{words: "dsttensorisnotcopied", kind: DeviceOOM, format: "tensorflow", backend: "cuda"},
	{words: "cudaruntimeimplicitinitializationongpu", kind: DeviceOOM, format: "tensorflow", backend: "cuda", near: []string{"outofmemory"}, closing: "outofmemory"},

	// PyTorch behind a UI: ComfyUI prints the first words of cudaMallocAsync's message, and a report of its own.
	{words: "allocationondevice", kind: DeviceOOM, format: "async", library: "pytorch", backend: "cuda", near: []string{"outofmemoryerror:", "exceptionmessage:", "exceptionduringprocessing"}, not: []string{"wouldexceedallowedmemory"}},

	// Accelerate and bitsandbytes refuse to load what does not fit: transformers/quantizers/quantizer_bnb_4bit.py (validate_environment).
	{words: "somemodulesaredispatchedonthecpuorthedisk", kind: NoRoom, format: "dispatch", library: "transformers"},
	{words: "hadweightsoffloadedtothedisk", kind: NoRoom, format: "dispatch", library: "transformers"},
}

var paddleSizes = []place{behind(requested, "cannotallocate"), inFront(allocated, "memoryhasbeenallocated"), behind(free, "availablememoryisonly")}

// hostPhrases are what tells that main memory ran out.
var hostPhrases = []phrase{
	// Windows error 1455 in any language: Python prints [WinError 1455], Rust "(os error 1455)".
	{words: "winerror1455", kind: HostOOM, format: "windows-1455", library: "windows", backend: "cpu"},
	{words: "oserror1455", kind: HostOOM, format: "windows-1455", library: "windows", backend: "cpu"},
	{words: "thepagingfileistoosmall", kind: HostOOM, format: "windows-1455", library: "windows", backend: "cpu", not: []string{"1455"}},
	{words: "winerror8]", kind: HostOOM, format: "windows-1455", library: "windows", backend: "cpu"},
	{words: "winerror1450", kind: HostOOM, format: "windows-1455", library: "windows", backend: "cpu"},

	// Notebooks in the cloud.
	{words: "sessioncrashedafterusingallavailableram", kind: HostOOM, format: "colab", backend: "cpu", opening: "your"},
	{words: "notebooktriedtoallocatemorememorythanisavailable", kind: HostOOM, format: "kaggle", backend: "cpu", opening: "your"},

	// Kubernetes: pkg/kubelet/eviction/helpers.go.
	{words: "thenodewaslowonresource:memory", kind: HostOOM, format: "kubernetes", backend: "cpu", sizes: []place{behind(processHeld, "wasusing"), behind(free, "available:")}},

	// Batch systems and services beside slurmstepd's own count: sacct and seff, LSF, systemd.
	{words: "exceededstepmemorylimit", kind: HostOOM, format: "slurm", backend: "cpu"},
	{words: "exceededjobmemorylimit", kind: HostOOM, format: "slurm", backend: "cpu"},
	{words: "state:outofmemory", kind: HostOOM, format: "slurm", backend: "cpu"},
	{words: "state=outofmemory", kind: HostOOM, format: "slurm", backend: "cpu"},
	{words: "termmemlimit", kind: HostOOM, format: "lsf", backend: "cpu"},
	{words: "killedbytheoomkiller", kind: HostOOM, format: "killed", library: "kernel", backend: "cpu"},
	{words: "withresult'oom-kill'", kind: HostOOM, format: "killed", library: "kernel", backend: "cpu"},

	// Spark's and Dask's watchers.
	{words: "containerkilledbyyarnforexceedingmemorylimits", kind: HostOOM, format: "yarn", backend: "cpu", sizes: []place{inFront(processHeld, "of")}},
	{words: "workerexceeded95%memorybudget", kind: HostOOM, format: "dask", backend: "cpu"},

	// NumPy without a size (1.17), Arrow, Rust (polars, tokenizers), R, OpenCV, NCCL's shared memory.
	{words: "arrayistoobig;", kind: HostOOM, format: "numpy", backend: "cpu"},
	{words: "mallocofsize", kind: HostOOM, format: "arrow", backend: "cpu", closing: "failed", sizes: []place{behind(requested, "mallocofsize")}, near: []string{"failed"}},
	{words: "reallocofsize", kind: HostOOM, format: "arrow", backend: "cpu", closing: "failed", sizes: []place{behind(requested, "reallocofsize")}, near: []string{"failed"}},
	{words: "memoryallocationof", kind: HostOOM, format: "rust", backend: "cpu", closing: "failed", sizes: []place{behind(requested, "allocationof")}, near: []string{"bytesfailed"}},
	{words: "cannotallocatevectorofsize", kind: HostOOM, format: "r", backend: "cpu", sizes: []place{behind(requested, "vectorofsize")}},
	{words: "insufficientmemory)failedtoallocate", kind: HostOOM, format: "opencv", backend: "cpu", sizes: []place{behind(requested, "failedtoallocate")}},
	{words: "errorwhilecreatingsharedmemorysegment", kind: SharedOOM, format: "nccl", backend: "cpu", sizes: []place{behind(requested, "(size")}},
	{words: "faildtoallocmemoryof", kind: HostOOM, format: "paddle", backend: "cpu", sizes: []place{behind(requested, "memoryof")}},
	{words: "failtoallocmemoryof", kind: HostOOM, format: "paddle", backend: "cpu", sizes: []place{behind(requested, "memoryof")}},
}
