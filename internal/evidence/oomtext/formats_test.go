package oomtext

import (
	"fmt"
	"slices"
)

// v2 is a message of PyTorch 2.1 and later with the given spelling, device and process sentences.
func v2(capacity, device, processes string) string {
	return fmt.Sprintf("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 768.00 MiB. %s has a total %s of 23.64 GiB of which 301.25 MiB is free. "+
		"%sOf the allocated memory 19.50 GiB is allocated by PyTorch, and 612.38 MiB is reserved by PyTorch but unallocated. "+
		"If reserved but unallocated memory is large try setting PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to avoid fragmentation.  "+
		"See documentation for Memory Management  (https://pytorch.org/docs/stable/notes/cuda.html#environment-variables)", device, capacity, processes)
}

// formats are messages written to the templates of each version and library, and what must be read.
var formats = slices.Concat(ownFormats, stackFormats)

var ownFormats = []struct{ text, want string }{
	// PyTorch 0.x
	{"RuntimeError: cuda runtime error (2) : out of memory at /tmp/torch/lib/THC/generic/THCStorage.cu:61",
		"oom thc backend=cuda class=RuntimeError torch=0.1–0.4"},
	{"THCudaCheck FAIL file=/tmp/torch/lib/THC/generic/THCStorage.cu line=61 error=2 : out of memory", "oom thc backend=cuda torch=0.1–0.4"},
	// 1.x
	{"RuntimeError: CUDA out of memory. Tried to allocate 98.00 MiB (GPU 2; 7.93 GiB total capacity; 6.81 GiB already allocated; 40.50 MiB free; 300.12 MiB cached)",
		"oom v1-cached backend=cuda class=RuntimeError device=2 requested=98.00MiB capacity=7.93GiB free=40.50MiB allocated=6.81GiB unallocated=300.12MiB torch=1.0–1.3"},
	{"RuntimeError: CUDA out of memory. Tried to allocate 98.00 MiB (GPU 0; 7.93 GiB total capacity; 6.81 GiB already allocated; 0 bytes free; 7.20 GiB reserved in total by PyTorch)",
		"oom v1-reserved backend=cuda class=RuntimeError device=0 requested=98.00MiB capacity=7.93GiB free=0bytes allocated=6.81GiB reserved=7.20GiB torch=1.4–1.9"},
	{"torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.25 GiB (GPU 0; 15.90 GiB total capacity; 9.81 GiB already allocated; 1.50 GiB free; 12.00 GiB allowed; 13.20 GiB reserved in total by PyTorch) If reserved memory is >> allocated memory try setting max_split_size_mb to avoid fragmentation.  See documentation for Memory Management and PYTORCH_CUDA_ALLOC_CONF",
		"oom v1-split backend=cuda class=torch.cuda.OutOfMemoryError device=0 requested=2.25GiB capacity=15.90GiB free=1.50GiB allocated=9.81GiB reserved=13.20GiB allowed=12.00GiB advice=max_split_size_mb torch=1.13–2.0"},
	// 2.x
	{"torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 MiB. GPU 0 has a total capacty of 10.75 GiB of which 8.12 MiB is free. Process 4242 has 3.10 GiB memory in use. Including non-PyTorch memory, this process has 7.61 GiB memory in use. Of the allocated memory 7.00 GiB is allocated by PyTorch, and 130.44 MiB is reserved by PyTorch but unallocated. If reserved but unallocated memory is large try setting max_split_size_mb to avoid fragmentation.  See documentation for Memory Management and PYTORCH_CUDA_ALLOC_CONF",
		"oom v21-typo backend=cuda class=torch.cuda.OutOfMemoryError device=0 requested=20.00MiB capacity=10.75GiB free=8.12MiB process=7.61GiB pid4242=3.10GiB allocated=7.00GiB unallocated=130.44MiB advice=max_split_size_mb torch=2.1–2.1"},
	{v2("capacity", "GPU 3", "Process 70 has 1.20 GiB memory in use. Including non-PyTorch memory, this process has 20.65 GiB memory in use. Process 71 has 512.00 MiB memory in use. "),
		"oom v22-exp backend=cuda class=torch.OutOfMemoryError device=3 requested=768.00MiB capacity=23.64GiB free=301.25MiB process=20.65GiB pid70=1.20GiB pid71=512.00MiB allocated=19.50GiB unallocated=612.38MiB advice=PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True torch=2.4–2.9"},
	{"torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.00 GiB. GPU \x00 has a total capacity of 31.73 GiB of which 95.00 MiB is free. Of the allocated memory 30.02 GiB is allocated by PyTorch, and 1.02 GiB is reserved by PyTorch but unallocated.",
		"oom v22-exp backend=cuda class=torch.cuda.OutOfMemoryError device=0 requested=1.00GiB capacity=31.73GiB free=95.00MiB allocated=30.02GiB unallocated=1.02GiB torch=2.3–2.3"},
	{"torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 1862.65 GiB. GPU ",
		"oom v22-exp backend=cuda class=torch.cuda.OutOfMemoryError requested=1862.65GiB torch=2.3–2.3 truncated"},
	{"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 64.00 MiB. GPU 1 has a total capacity of 79.10 GiB of which 4.00 GiB is free. Including non-PyTorch memory, this process has 40.00 GiB memory in use. 39.55 GiB allowed; Of the allocated memory 38.00 GiB is allocated by PyTorch, with 92.00 MiB allocated in private pools (e.g., CUDA Graphs), and 512.50 MiB is reserved by PyTorch but unallocated. If reserved but unallocated memory is large try setting PYTORCH_ALLOC_CONF=expandable_segments:True to avoid fragmentation.",
		"oom v22-exp backend=cuda class=torch.OutOfMemoryError device=1 requested=64.00MiB capacity=79.10GiB free=4.00GiB process=40.00GiB allocated=38.00GiB unallocated=512.50MiB pools=92.00MiB allowed=39.55GiB advice=PYTORCH_ALLOC_CONF=expandable_segments:True torch=2.10–2.10"},
	{"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate more than 1EB memory.", "oom v22-1eb backend=cuda class=torch.OutOfMemoryError torch=2.4"},
	{"torch.OutOfMemoryError: CUDA out of memory. Allocation was preemptively rejected because it would exceed per_process_memory_fraction limit. Requested size: 2.50 GiB",
		"oom reject backend=cuda class=torch.OutOfMemoryError requested=2.50GiB torch=2.12"},
	{"[W1101 10:11:12.131415 CUDACachingAllocator.cpp:1201] Warning: memory allocation failed with OOM on device 5 while trying to allocate 536870912 bytes (free: 1048576 bytes, total: 17179869184 bytes)",
		"oom attempt backend=cuda device=5 requested=536870912bytes capacity=17179869184bytes free=1048576bytes torch=2.13"},
	{"RuntimeError: CUDA out of memory. Tried to allocate 7.50 GiB", "oom short backend=cuda class=RuntimeError requested=7.50GiB truncated"},
	{"RuntimeError: CUDA out of memory.", "oom short backend=cuda class=RuntimeError truncated"},
	// other backends
	{"torch.OutOfMemoryError: HIP out of memory. Tried to allocate 1.10 GiB. GPU 4 has a total capacity of 63.98 GiB of which 900.00 MiB is free. Of the allocated memory 60.11 GiB is allocated by PyTorch, and 1.75 GiB is reserved by PyTorch but unallocated. If reserved but unallocated memory is large try setting PYTORCH_HIP_ALLOC_CONF=expandable_segments:True to avoid fragmentation.",
		"oom v22-exp backend=hip class=torch.OutOfMemoryError device=4 requested=1.10GiB capacity=63.98GiB free=900.00MiB allocated=60.11GiB unallocated=1.75GiB advice=PYTORCH_HIP_ALLOC_CONF=expandable_segments:True torch=2.4"},
	{"torch.OutOfMemoryError: XPU out of memory. Tried to allocate 3.00 GiB. GPU 0 has a total capacity of 11.60 GiB of which 2.10 GiB is free. Of the allocated memory 8.00 GiB is allocated by PyTorch, and 12.00 MiB is reserved by PyTorch but unallocated. Please use `empty_cache` to release all unoccupied cached memory.",
		"oom v22-exp backend=xpu class=torch.OutOfMemoryError device=0 requested=3.00GiB capacity=11.60GiB free=2.10GiB allocated=8.00GiB unallocated=12.00MiB advice=torch.xpu.empty_cache() torch=2.4"},
	{"RuntimeError: Current platform can NOT allocate memory block with size larger than 4GB! Tried to allocate 5.20 GiB (GPU  1; 15.00 GiB total capacity; 0 bytes already allocated; 2.00 MiB reserved in total by PyTorch)",
		"oom xpu-block backend=xpu class=RuntimeError device=1 requested=5.20GiB capacity=15.00GiB allocated=0bytes reserved=2.00MiB allowed=4GB"},
	{"RuntimeError: NPU out of memory. Tried to allocate 40.00 MiB (NPU 6; 29.50 GiB total capacity; 27.01 GiB already allocated; 27.02 GiB current active; 12.00 MiB free; 28.00 GiB reserved in total by PyTorch) If reserved memory is >> allocated memory try setting max_split_size_mb to avoid fragmentation.",
		"oom v1-split backend=npu class=RuntimeError device=6 requested=40.00MiB capacity=29.50GiB free=12.00MiB allocated=27.01GiB active=27.02GiB reserved=28.00GiB advice=max_split_size_mb"},
	{"RuntimeError: MPS backend out of memory (MPS allocated: 12.25 GB, other allocations: 640.00 MB, max allowed: 18.13 GB). Tried to allocate 6.00 GB on private pool. Use PYTORCH_MPS_HIGH_WATERMARK_RATIO=0.0 to disable upper limit for memory allocations (may cause system failure).",
		"oom mps backend=mps class=RuntimeError requested=6.00GB allocated=12.25GB other=640.00MB allowed=18.13GB pool=private advice=PYTORCH_MPS_HIGH_WATERMARK_RATIO=0.0"},
	{"RuntimeError: Invalid buffer size: 22.40 GiB", "oom mps-buffer backend=mps class=RuntimeError requested=22.40GiB"},
	{"torch.OutOfMemoryError: Allocation on device 1 would exceed allowed memory. (out of memory)\nCurrently allocated     : 9.75 GiB\nRequested               : 36.00 MiB\nDevice limit            : 11.99 GiB\nFree (according to CUDA): 0 bytes\nPyTorch limit (set by user-supplied memory fraction)\n                        : 10.00 GiB",
		"oom async backend=cuda class=torch.OutOfMemoryError device=1 requested=36.00MiB capacity=11.99GiB free=0bytes allocated=9.75GiB allowed=10.00GiB torch=1.13"},
	// driver and libraries
	{"torch.AcceleratorError: CUDA error: out of memory\nSearch for `cudaErrorMemoryAllocation' in https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__TYPES.html for more information.\nCUDA kernel errors might be asynchronously reported at some other API call, so the stacktrace below might be incorrect.\nFor debugging consider passing CUDA_LAUNCH_BLOCKING=1\nCompile with `TORCH_USE_CUDA_DSA` to enable device-side assertions.",
		"library-oom driver backend=cuda library=driver class=torch.AcceleratorError"},
	{"RuntimeError: CUDA driver error: out of memory", "library-oom driver backend=cuda library=driver class=RuntimeError"},
	{"RuntimeError: HIP error: out of memory", "library-oom driver backend=hip library=driver class=RuntimeError"},
	{"failed call to cuInit: CUDA_ERROR_OUT_OF_MEMORY", "library-oom driver backend=cuda library=driver"},
	{"RuntimeError: Native API failed. Native API returns: 39 (UR_RESULT_ERROR_OUT_OF_DEVICE_MEMORY)", "library-oom driver backend=xpu library=driver"},
	{"RuntimeError: CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`", "library-oom cublas backend=cuda library=cublas class=RuntimeError"},
	{"RuntimeError: CUDA error: CUBLAS_STATUS_NOT_INITIALIZED when calling `cublasCreate(handle)`", "library-oom cublas backend=cuda library=cublas class=RuntimeError uncertain"},
	{"RuntimeError: cuDNN error: CUDNN_STATUS_ALLOC_FAILED", "library-oom cudnn backend=cuda library=cudnn class=RuntimeError"},
	{"RuntimeError: cuDNN error: CUDNN_STATUS_INTERNAL_ERROR", "library-oom cudnn backend=cuda library=cudnn class=RuntimeError uncertain"},
	{"RuntimeError: Unable to find a valid cuDNN algorithm to run convolution", "library-oom cudnn backend=cuda library=cudnn class=RuntimeError uncertain"},
	{"RuntimeError: GET was unable to find an engine to execute this computation", "library-oom cudnn backend=cuda library=cudnn class=RuntimeError uncertain"},
	{"RuntimeError: cuFFT error: CUFFT_ALLOC_FAILED", "library-oom cufft backend=cuda library=cufft class=RuntimeError"},
	{"RuntimeError: cusolver error: CUSOLVER_STATUS_ALLOC_FAILED, when calling `cusolverDnCreate(handle)`", "library-oom cusolver backend=cuda library=cusolver class=RuntimeError"},
	{"node7:120:188 [3] include/alloc.h:101 NCCL WARN Cuda failure 2 'out of memory'", "library-oom nccl backend=cuda library=nccl device=3"},
	{"node7:120:188 [1] include/alloc.h:190 NCCL WARN Failed to CUDA calloc 6291456 bytes", "library-oom nccl backend=cuda library=nccl device=1 requested=6291456bytes"},
	{`RuntimeError: NVML_SUCCESS == r INTERNAL ASSERT FAILED at "../c10/cuda/CUDACachingAllocator.cpp":1131, please report a bug to PyTorch.`, "library-oom nvml backend=cuda library=nvml class=RuntimeError"},
	{"triton.runtime.errors.OutOfResources: out of resource: shared memory, Required: 147456, Hardware limit: 101376. Reducing block sizes or `num_stages` may help.",
		"not-an-oom triton library=triton class=triton.runtime.errors.OutOfResources requested=147456bytes allowed=101376bytes"},
	// main memory
	{"RuntimeError: [enforce fail at alloc_cpu.cpp:118] err == 0. DefaultCPUAllocator: can't allocate memory: you tried to allocate 34359738368 bytes. Error code 12 (Cannot allocate memory)",
		"host-oom cpu backend=cpu class=RuntimeError requested=34359738368bytes"},
	{"RuntimeError: [enforce fail at C:\\a\\alloc_cpu.cpp:114] data. DefaultCPUAllocator: not enough memory: you tried to allocate 8589934592 bytes.", "host-oom cpu backend=cpu class=RuntimeError requested=8589934592bytes"},
	{"numpy.core._exceptions._ArrayMemoryError: Unable to allocate 7.45 GiB for an array with shape (1000000, 1000) and data type float64",
		"host-oom numpy backend=cpu library=numpy class=numpy.core._exceptions._ArrayMemoryError requested=7.45GiB shape=1000000x1000 dtype=float64"},
	{"MemoryError", "host-oom host-error backend=cpu class=MemoryError"},
	{"terminate called after throwing an instance of 'std::bad_alloc'", "host-oom host-error backend=cpu"},
	{"OSError: [Errno 12] Cannot allocate memory", "host-oom host-error backend=cpu"},
	{"[90210.123456] Out of memory: Killed process 4711 (python3) total-vm:81234567kB, anon-rss:65012345kB, file-rss:1024kB, shmem-rss:2048kB, UID:1000 pgtables:130000kB oom_score_adj:0",
		"host-oom kernel library=kernel pid=4711 command=python3 signal=SIGKILL virtual=81234567kB anonymous=65012345kB file=1024kB shmem=2048kB pagetables=130000kB"},
	{"slurmstepd: error: Detected 3 oom-kill event(s) in StepId=8812.batch cgroup. Some of your processes may have been killed by the cgroup out-of-memory handler.", "host-oom slurm library=slurm events=3 step=8812.batch"},
	{"srun: error: gpu-a17: task 5: Out Of Memory", "host-oom slurm library=slurm rank=5"},
	{"RuntimeError: DataLoader worker (pid 31337) is killed by signal: Killed.", "host-oom worker-killed library=dataloader class=RuntimeError pid=31337 signal=SIGKILL uncertain"},
	{"RuntimeError: DataLoader worker (pid(s) 51, 52) exited unexpectedly", "host-oom worker-gone library=dataloader class=RuntimeError pid=51 uncertain"},
	{"ERROR: Unexpected bus error encountered in worker. This might be caused by insufficient shared memory (shm).\nRuntimeError: DataLoader worker (pid 9) is killed by signal: Bus error. It is possible that dataloader's workers are out of shared memory.",
		"shm-oom worker-shm library=dataloader class=RuntimeError pid=9 signal=SIGBUS"},
	{"RuntimeError: unable to write to file </torch_812_3111_0>: No space left on device (28)", "shm-oom worker-shm library=dataloader class=RuntimeError"},
	{"RuntimeError: unable to mmap 4194304 bytes from file </torch_812_3111_0>: Cannot allocate memory (12)", "shm-oom worker-shm library=dataloader class=RuntimeError requested=4194304bytes"},
	{"RuntimeError: unable to open shared memory object </torch_812_3111_0> in read-write mode: Too many open files (24)", "not-an-oom open-files library=dataloader"},
	{"ERROR:torch.distributed.elastic.multiprocessing.api:failed (exitcode: -9) local_rank: 3 (pid: 2718) of binary: /usr/bin/python3", "host-oom killed rank=3 pid=2718 signal=SIGKILL exit=-9 uncertain"},
	{"  traceback : Signal 9 (SIGKILL) received by PID 2718", "host-oom killed pid=2718 signal=SIGKILL exit=-9 uncertain"},
	{"command terminated with exit code 137", "host-oom killed signal=SIGKILL exit=137 uncertain"},
	{"    Reason:       OOMKilled\n    Exit Code:    137", "host-oom killed signal=SIGKILL exit=137"},
	{"Killed", "host-oom killed signal=SIGKILL uncertain"},
	{"./job.sh: line 12:  8812 Killed                  python train.py --epochs 3", "host-oom killed pid=8812 signal=SIGKILL uncertain"},
	{"Memory on the node (IP: 10.0.0.3, ID: ab12) where the task (actor ID: cd34) was running was 60.10GB / 62.00GB (0.969355), which exceeds the memory usage threshold of 0.95. Ray killed this worker",
		"host-oom ray library=ray capacity=62.00GB process=60.10GB share=0.95"},
	// other stacks
	{"ResourceExhaustedError: OOM when allocating tensor with shape[32,256,56,56] and type float on /job:localhost/replica:0/task:0/device:GPU:1 by allocator GPU_1_bfc",
		"oom tensorflow backend=cuda library=tensorflow device=1 requested=(102760448) shape=32x256x56x56 dtype=float"},
	{"failed to allocate 7.50G (8053063680 bytes) from device: CUDA_ERROR_OUT_OF_MEMORY: out of memory", "oom tensorflow backend=cuda library=tensorflow requested=7.50G"},
	{"Allocator (GPU_0_bfc) ran out of memory trying to allocate 1.50GiB (rounded to 1610612736)requested by op", "oom tensorflow backend=cuda library=tensorflow requested=1.50GiB"},
	{"ValueError: The model's max seq len (32768) is larger than the maximum number of tokens that can be stored in KV cache (13200).", "kv-cache vllm backend=cuda library=vllm"},
	{"RuntimeError: NCCL Error 1: unhandled cuda error\nLast error:\nFailed to CUDA calloc async 608 bytes", "library-oom nccl backend=cuda library=nccl requested=608bytes"},
	{"E       torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 7.75 GiB of which 1.00 GiB is free. Of the allocated memory 5.00 GiB is allocated by PyTorch, and 10.00 MiB is reserved by PyTorch but unallocated.",
		"oom v22-exp backend=cuda class=torch.OutOfMemoryError device=0 requested=2.00GiB capacity=7.75GiB free=1.00GiB allocated=5.00GiB unallocated=10.00MiB torch=2.4"},
	{"RuntimeError: MPS backend out of memory (MPS allocated: 1.50 GiB, other allocations: 2.00 MiB). Tried to allocate 3.00 GiB on shared pool.", "oom mps backend=mps class=RuntimeError requested=3.00GiB allocated=1.50GiB other=2.00MiB pool=shared"},
	{"jaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to allocate 4294967296 bytes.", "oom jax library=jax class=jaxlib.xla_extension.XlaRuntimeError requested=4294967296bytes"},
	{"jaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: Failed to allocate request for 1.50GiB (1610612736B) on device ordinal 2", "oom jax library=jax class=jaxlib.xla_extension.XlaRuntimeError device=2 requested=1.50GiB"},
	{"XlaRuntimeError: RESOURCE_EXHAUSTED: XLA:TPU compile permanent error. Ran out of memory in memory space hbm. Used 17.25G of 15.48G hbm. Exceeded hbm capacity by 1.77G.", "oom jax backend=tpu library=jax capacity=15.48G program=17.25G"},
	{"ValueError: Free memory on device cuda:1 (10.50/23.64 GiB) on startup is less than desired GPU memory utilization (0.85, 20.09 GiB). Decrease GPU memory utilization.", "oom-refused vllm backend=cuda library=vllm class=ValueError device=1 requested=20.09GiB capacity=23.64GiB free=10.50GiB share=0.85"},
	{"ValueError: To serve at least one request with the models's max seq len (32768), (4.00 GiB KV cache is needed, which is larger than the available KV cache memory (2.31 GiB). Try increasing `gpu_memory_utilization`.", "kv-cache vllm backend=cuda library=vllm requested=4.00GiB free=2.31GiB"},
	{"ValueError: No available memory for the cache blocks. Try increasing `gpu_memory_utilization` when initializing the engine.", "kv-cache vllm backend=cuda library=vllm class=ValueError"},
	{"RuntimeError: No executable batch size found, reached zero.", "oom-gave-up accelerate library=accelerate class=RuntimeError"},
	{"RuntimeError: Cannot re-initialize CUDA in forked subprocess. To use CUDA with multiprocessing, you must use the 'spawn' start method", "worker-cuda forked-cuda backend=cuda class=RuntimeError"},
}
