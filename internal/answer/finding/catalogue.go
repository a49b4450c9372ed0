package finding

import (
	"slices"

	"github.com/plimsoll/plimsoll/internal/answer/report"
	release "github.com/plimsoll/plimsoll/internal/torch"
)

// section is a chapter of docs/findings.md.
type section struct {
	title   string
	entries []Entry
}

// sections is the whole catalogue. To add a finding, add its entry here and a rule in package diagnose that uses its id.
var sections = []section{
	{"Who holds the memory", holders},
	{"When it happens", moments},
	{"Loading, saving, several GPUs", parts},
	{"The allocator", allocator},
	{"Where the bytes go", bytes},
	{"Not the GPU's memory, or not PyTorch's message", others},
}

var holders = []Entry{
	{
		ID: "other-process", Class: FromMessage, Severity: report.Error,
		Title:    "Other processes hold a large part of the GPU",
		Evidence: "the message names processes that hold a tenth of the GPU or more, or more memory is in use than this process and the free memory account for",
		Refuted:  "those processes being workers of this same job, or nvidia-smi showing this process alone",
		Remedies: slices.Concat([]Remedy{
			do(vllm, "use what is free: a lower --gpu-memory-utilization"),
			do(sglang, "use what is free: a lower --mem-fraction-static"),
			frees(on("ranks"), "give each process a GPU of its own: torch.cuda.set_device(local_rank), or CUDA_VISIBLE_DEVICES for each"),
			frees(on("ranks"), "start fewer processes, or let one process hold the model for all of them"),
		}, findHolders, otherDevice, []Remedy{
			do(jax, "another JAX process may have taken 75% of the GPU: XLA_PYTHON_CLIENT_PREALLOCATE=false there"),
			do(tf, "another TensorFlow process may have taken the whole GPU: set_memory_growth there"),
		}),
		Note: "A smaller batch only treats the symptom.",
	},
	{
		ID: "orphan-memory", Class: FromMessage, Severity: report.Error,
		Title:    "Part of the GPU is held by something the driver does not name: a dead parent's workers, another container",
		Evidence: "more than an eighth of the GPU is neither free nor held by this process or by those named",
		Refuted:  "nvidia-smi accounting for every byte",
		Remedies: slices.Concat([]Remedy{
			frees(under(nvidia, "linux"), "fuser -v /dev/nvidia* also finds workers of dead parents and processes in other containers: stop those you do not need"),
		}, findHolders, otherDevice),
	},
	{
		ID: "rank0-contexts", Class: FromMessage, Severity: report.Error,
		Title:    "Every rank of a job, or every DataLoader worker, has a CUDA context on GPU 0",
		Evidence: "the message about GPU 0 names several processes with 150 MiB to 1 GiB each, all about as much",
		Refuted:  "pids that belong to other people's jobs",
		Remedies: []Remedy{
			frees(torch, "torch.cuda.set_device(local_rank) before any other CUDA call in every rank"),
			frees(torch, `torch.load(path, map_location="cpu"): without it every rank loads to the GPU it was saved from`),
			do(torch, "keep CUDA out of datasets and collate functions"),
		},
	},
	{
		ID: "non-pytorch-memory", Class: FromMessage, Severity: report.Error,
		Title:    "The process holds far more than PyTorch's allocator does",
		Evidence: "the process's share of the GPU exceeds what PyTorch reserved by 1.5 GiB or more; a CUDA context takes 0.3 to 0.6 GiB",
		Refuted:  "a second library in the process whose share is known",
		Remedies: []Remedy{
			do(vllm, "vLLM's CUDA graphs and NCCL buffers are outside PyTorch: --enforce-eager, a lower --gpu-memory-utilization"),
			frees(cuda, "find it: other libraries on the GPU (vLLM, TensorFlow, JAX, CuPy), NCCL buffers (NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=ALLOC)"),
			do(with(torch, "hip"), "find it: other libraries on the GPU, RCCL buffers (NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=ALLOC)"),
			do(mps, "torch.mps.empty_cache() between phases, fewer different shapes (each compiles a graph that keeps buffers)"),
			do(mps, "close other programs that use the GPU: it shares the computer's memory"),
			do(torch, "look for other libraries that use the device in this process"),
		},
	},
	{
		ID: "absurd-request", Class: Waste, Severity: report.Error,
		Title:    "One tensor larger than everything this process could have was requested",
		Evidence: "the request alone exceeds the GPU or the limit; often it is an exact square, every element paired with every other",
		Refuted:  "a tensor that really needs that many elements; then it must be computed in pieces",
		Remedies: []Remedy{
			do(anyone, "print the shapes at the line named here: a broadcast of (N,1) with (N), full attention scores, or a wrong size"),
			do(doing(anyone, Inference, Diffusion), "process a large image in tiles (--tile 256), a long video or text in pieces"),
			do(doing(torch, Training, Inference, Serving, Data, Unstated), "compute it in chunks, or with a kernel that never holds it (F.scaled_dot_product_attention, chunked cross-entropy)"),
			do(on("numpy"), "a sparse matrix, or rows in blocks"),
			do(mps, "one Metal buffer has a maximum size: split the tensor (smaller batch, attention slicing)"),
		},
		Note: "Freeing memory cannot help.",
	},
	{
		ID: "one-large-tensor", Class: Special, Severity: report.Error,
		Title:    "One tensor needs a large part of the GPU at once",
		Evidence: "in a snapshot, one line makes tensors at least twice as large as any other line of the step; in a message, the request is a quarter of the GPU or more, and a large part of everything in use",
		Refuted:  "many tensors of this size, each needed",
		Remedies: slices.Concat([]Remedy{
			do(anyone, "look at the shape of that one tensor at the line named here: halving the dimension it depends on halves it"),
			do(torch, "compute it in chunks, or in a narrower type"),
		}, lessAtOnce),
	},
	{
		ID: "free-but-fails", Severity: report.Error,
		Title:    "Clearly more was free than was requested",
		Evidence: "the message's own numbers; where it prints an allowed amount, that limit was reached",
		Refuted:  "free memory that was read after something had been released",
		Remedies: []Remedy{
			do(with(torch, "xpu"), "smaller tensors: split the batch or the sequence; some drivers give no block above 4 GB"),
			do(doing(cuda, Training), "if set_per_process_memory_fraction or per_process_memory_fraction is set, raise it"),
			do(nvidia, "look for a limit below the GPU: a memory fraction, MIG, a container or scheduler quota"),
			do(under(cuda, "windows", Unstated), "on Windows and WSL: DataLoader(pin_memory=False), a newer driver, a larger paging file"),
			do(cuda, "check that the job runs on the GPU you think: CUDA_VISIBLE_DEVICES, device index"),
			{Action: "look for a limit: a quota of the container or scheduler, a maximum size of one buffer", Last: true},
		},
		Note: "A smaller batch is the wrong first answer.",
	},
	{
		ID: "wsl-pinned-memory", Class: FromMessage, Severity: report.Error,
		Title:    "Under WSL pinned main memory ran out, not the GPU's",
		Evidence: "the driver does not say what processes use (2^64 in the message) and more was free than requested",
		Refuted:  "the same failure with pin_memory=False",
		Remedies: []Remedy{
			do(torch, "DataLoader(pin_memory=False), a newer driver, more memory for WSL in .wslconfig"),
			do(anyone, "a newer driver, more memory for WSL in .wslconfig"),
		},
	},
	{
		ID: "sysmem-fallback", Class: FromMessage, Severity: report.Error,
		Title:    "On Windows the driver has begun to use main memory in place of the GPU's",
		Evidence: "more is allocated than the GPU has",
		Refuted:  "several GPUs counted together, or a system that is not Windows or WSL",
		Remedies: []Remedy{
			do(nvidia, `NVIDIA Control Panel: set "CUDA - Sysmem Fallback Policy" to "Prefer No Sysmem Fallback", to fail early instead`),
			do(training, "fit the job to the GPU: smaller batch, checkpointing, 16-bit"),
			do(doing(torch, Inference, Serving, Diffusion, Unstated), "fit the job to the GPU: smaller images, inputs or batches; 16-bit or quantised weights"),
		},
	},
}

var moments = []Entry{
	{
		ID: "growth", Class: Waste | Lasting, Severity: report.Error,
		Title:    "Memory in use rises step after step because something keeps references",
		Evidence: "tensors of at least four earlier steps are alive at the end of a step; the finding says whether one kind survives (collected results) or several from inside the modules (a kept graph)",
		Refuted:  "memory in use at the end of a step that stops rising in a longer recording",
		Remedies: []Remedy{
			do(on("tests"), "free memory between tests: del, gc.collect() and torch.cuda.empty_cache() in a fixture, or a process per test (pytest-forked, pytest -n)"),
			{Action: "store loss.item() or out.detach().cpu(), not the tensor with its graph", For: torch, Last: true},
			do(cupy, "del arrays you no longer need, then cupy.get_default_memory_pool().free_all_blocks(); a newer CuPy"),
		},
		Note: "A smaller batch delays it; empty_cache() cannot free what is referenced.",
	},
	{
		ID: "eval-graph-kept", Class: Waste | Lasting, Severity: report.Error,
		Title:    "Evaluation records autograd graphs",
		Evidence: "in evaluation, tensors from several lines inside the model stay alive for several layers, in one batch or from batch to batch. From a message: it failed inside evaluation",
		Refuted:  "the evaluation loop running under torch.no_grad() or inference_mode()",
		Remedies: []Remedy{
			do(torch, "torch.inference_mode() around evaluation"),
			do(torch, "collect outputs on the CPU; a smaller evaluation batch"),
		},
		Note: "model.eval() does not switch autograd off.",
	},
	{
		ID: "eval-outputs-kept", Class: Waste | Lasting, Severity: report.Error,
		Title:    "Evaluation collects its outputs on the GPU",
		Evidence: "one kind of tensor of every evaluation batch stays; or the traceback is in the call that concatenates them",
		Refuted:  "evaluation holding no more after its last batch than after its second",
		Remedies: []Remedy{do(torch, "collect on the CPU: out.detach().cpu(); with Trainer: eval_accumulation_steps=8, preprocess_logits_for_metrics")},
	},
	{
		ID: "graph-kept-in-generation", Class: Waste | Lasting, Severity: report.Error,
		Title:    "Generation keeps the autograd graph of every token",
		Evidence: "in a loop that generates, tensors from several lines inside the model stay alive from iteration to iteration",
		Refuted:  "the loop running under torch.no_grad() or inference_mode()",
		Remedies: []Remedy{
			do(torch, "generate under torch.inference_mode() (or torch.no_grad())"),
			do(torch, "detach what goes into the next iteration"),
		},
		Note: "A smaller batch or a shorter prompt only delays it.",
	},
	{
		ID: "eval-batch-too-large", Class: Special, Severity: report.Error,
		Title:    "One evaluation batch does not fit, although nothing of it is kept for backward",
		Evidence: "the request failed in evaluation, after steps of training that fitted; no graph and no outputs of earlier batches are alive",
		Refuted:  "an evaluation batch no larger than the training batch",
		Remedies: []Remedy{
			do(torch, "a smaller evaluation batch: results do not depend on it"),
			do(torch, "torch.inference_mode() around evaluation, if it is not there yet"),
		},
	},
	{
		ID: "exception-holds-tensors", Class: Waste | Lasting | FromMessage, Severity: report.Error,
		Title:    "A caught out-of-memory error keeps the failed attempt alive through its traceback, so every retry fails",
		Evidence: "the program tries sizes that are exact multiples; or requests shrink from message to message while the memory in use does not",
		Refuted:  "a retry after the except block has been left that fails the same way",
		Remedies: []Remedy{
			do(torch, "only set a flag inside except, leave the block, then retry (and call gc.collect())"),
			do(torch, "try each size in a fresh process"),
		},
	},
	{
		ID: "optimizer-state-first-step", Class: WhereItFailed, Severity: report.Error,
		Title:    "The state that the optimizer creates in its first step does not fit",
		Evidence: "the failing request is the creation of that state (_init_group, or SGD's first momentum)",
		Refuted:  "a failure in a later step",
		Remedies: []Remedy{
			numerics(training, "8-bit Adam, Adafactor or SGD"),
			do(training, "shard it: ZeRO-1 or FSDP2 divides the state by the number of GPUs"),
		},
		Note: "Where parameters, gradients and state exceed the limit, a smaller batch cannot help, and the finding says so.",
	},
	{
		ID: "optimizer-step-temporaries", Class: WhereItFailed, Severity: report.Error,
		Title:    "The foreach implementation of a step holds a temporary as large as the parameters",
		Evidence: "the failing request is inside optimizer.step() and is not state",
		Refuted:  "an optimizer created with foreach=False or fused=True",
		Remedies: []Remedy{
			do(training, "fused=True in the optimizer (no temporaries, faster), else foreach=False (slower)"),
			numerics(training, "8-bit Adam"),
		},
	},
	{
		ID: "second-step", Class: WhereItFailed | Special, Severity: report.Error,
		Title:    "The first step fitted only because the optimizer had no state yet",
		Evidence: "one step was complete; the state it left is there beside the activations of the second",
		Refuted:  "a larger batch or longer sequence in step 2",
		Remedies: []Remedy{
			do(training, "optimizer.zero_grad(set_to_none=True) before the forward pass"),
			do(training, halve),
			numerics(training, "8-bit Adam"),
		},
		Note: "Test a batch size with two steps.",
	},
	{
		ID: "input-spike", Class: WhereItFailed | Special, Severity: report.Error,
		Title:    "This batch is larger than any before it",
		Evidence: "the same lines now request more than 1.25 times the most that they requested in earlier steps",
		Refuted:  "equal shapes in the failing step and the step before it",
		Remedies: []Remedy{
			do(torch, "cap or bucket the length of samples (truncate, sort by length, batch by tokens)"),
			do(training, "try the longest batch first: it fails in the first minute instead of the tenth hour"),
		},
	},
	{
		ID: "outputs-held", Severity: report.Remark,
		Title:    "Results of one step are still held while the next runs forward",
		Evidence: "tensors of the previous step that are freed during this one are alive at the peak",
		Refuted:  "a step inside a function, whose locals are freed when it returns",
		Remedies: []Remedy{do(training, "del outputs, loss, or move the body of the loop into a function")},
	},
	{
		ID: "unused-gradients", Severity: report.Remark,
		Title:    "Gradients are kept that no optimizer uses",
		Evidence: "at the end of a step there are gradients for which the optimizer keeps no state, while it keeps some for all others",
		Refuted:  "a second optimizer without state, or gradients that the program itself reads",
		Remedies: []Remedy{do(training, "freeze what is not trained: for p in backbone.parameters(): p.requires_grad_(False)")},
	},
	{
		ID: "frozen-state", Severity: report.Remark,
		Title:    "The optimizer keeps state of parameters that are not trained any more",
		Evidence: "at the end of a step there is optimizer state for parameters without a gradient",
		Refuted:  "parameters that get gradients in some steps only",
		Remedies: []Remedy{do(training, "build the optimizer again from the parameters that are trained, or drop optimizer.state[p]")},
	},
}

var parts = []Entry{
	{
		ID: "model-load", Class: WhereItFailed, Severity: report.Error,
		Title:    "The model does not fit on the GPU while it is loaded",
		Evidence: "the request failed in .to(), .cuda(), a constructor or from_pretrained, and the parameters loaded so far are most of what is in use",
		Refuted:  "memory of another kind that could be freed before loading",
		Remedies: smallerModel,
		Note:     "Batch size, accumulation, checkpointing and empty_cache() cannot help.",
	},
	{
		ID: "model-too-large", Class: WhereItFailed, Severity: report.Error,
		Title:    "Parameters, gradients and optimizer state exceed the limit whatever the batch",
		Evidence: "their sum; with adapters only the gradients that exist count. From a message: a finder failed at every batch size",
		Refuted:  "gradients or state that are never allocated (frozen parameters, another optimizer)",
		Remedies: slices.Concat([]Remedy{
			do(training, "predict it: plimsoll predict --config config.json --batch 1 --gpu NAME"),
			numerics(training, "train adapters (LoRA), use an 8-bit optimizer, or shard over several GPUs"),
		}, smallerModel),
	},
	{
		ID: "checkpoint-save", Class: WhereItFailed, Severity: report.Error,
		Title:    "Saving a checkpoint needs memory that training has taken",
		Evidence: "the request came from state_dict() or torch.save()",
		Refuted:  "the same failure with saving switched off",
		Remedies: []Remedy{
			do(torch, "save sharded or offloaded to the CPU; call torch.cuda.empty_cache() once before"),
		},
	},
	{
		ID: "resume-doubles", Class: Waste | Lasting, Severity: report.Error,
		Title:    "A loaded checkpoint stays on the GPU beside the model it was copied into",
		Evidence: "tensors made by torch.load or safetensors are alive beside parameters from elsewhere",
		Refuted:  "the loaded tensors being the model's own parameters (load_state_dict(assign=True))",
		Remedies: []Remedy{do(torch, `torch.load(path, map_location="cpu"), del checkpoint after load_state_dict`)},
	},
	{
		ID: "model-copies", Class: Waste | Lasting, Severity: report.Error,
		Title:    "Two sets of parameters of the same sizes: an EMA, a teacher, a reference model, a deep copy",
		Evidence: "two lines outside constructors made tensors with equal sizes; a deep copy is recognised as such",
		Refuted:  "two different models that merely have the same shapes",
		Remedies: []Remedy{
			do(on("deepspeed", "fsdp"), "move it off the GPU or shard it: ZeRO-3 with offload_optimizer and offload_param on the CPU, or FSDP2"),
			do(torch, "copy on the CPU: {k: v.cpu() for k, v in model.state_dict().items()}"),
			do(torch, "copy before the model is moved to the GPU; with LoRA use the base model with adapters off"),
		},
	},
	{
		ID: "data-parallel", Class: Special, Severity: report.Error,
		Title:    "nn.DataParallel fills the first GPU before the others",
		Evidence: "stacks or a traceback through its scatter, replicate or gather",
		Refuted:  "equal use on all GPUs",
		Remedies: []Remedy{do(torch, "DistributedDataParallel, one process per GPU: torchrun --nproc-per-node=N train.py")},
	},
	{
		ID: "fsdp-gather", Class: Special, Severity: report.Error,
		Title:    "Sharded parameters are gathered whole, for a layer or a full state dict",
		Evidence: "requests from FSDP's unshard or all-gather, ZeRO's gather, full_tensor()",
		Refuted:  "each layer wrapped on its own and resharded after forward",
		Remedies: []Remedy{
			do(torch, "save sharded (SHARDED_STATE_DICT), or gather with cpu_offload=True on rank 0 only"),
			do(torch, "wrap every block on its own: fully_shard(block) with reshard_after_forward=True"),
		},
	},
	{
		ID: "accumulation-unsharded-grads", Class: Waste, Severity: report.Error,
		Title:    "Sharded training keeps whole gradients between micro-batches",
		Evidence: "FSDP or ZeRO is in use and gradients take more than 1.5 times the sharded parameters; or the traceback is in backward under no_sync",
		Refuted:  "gradients as large with accumulation switched off (gradient_accumulation_steps=1)",
		Remedies: []Remedy{do(training, "synchronise every micro-batch: leave no_sync() out (Accelerate: sync_each_batch=True)")},
	},
	{
		ID: "ddp-buckets", Severity: report.Remark,
		Title:    "DistributedDataParallel's buckets are a second copy of the gradients",
		Evidence: "memory that DistributedDataParallel itself requested",
		Refuted:  "gradient_as_bucket_view=True",
		Remedies: []Remedy{do(training, "DistributedDataParallel(model, gradient_as_bucket_view=True)")},
	},
}

var allocator = []Entry{
	{
		ID: "fragmentation", Class: Waste, Severity: report.Error,
		Title:    "Enough memory was reserved and unused, but in pieces",
		Evidence: "unused memory at the failure exceeds the request; with a snapshot, a replay under other settings within the same limit decides",
		Refuted:  "a replay under expandable_segments that fails as well (plimsoll replay)",
		Remedies: []Remedy{
			{Action: "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True (PyTorch 2.1+), alone", Command: "export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True", For: expandable, Frees: true},
			{Action: "PYTORCH_HIP_ALLOC_CONF=expandable_segments:True", Command: "export PYTORCH_HIP_ALLOC_CONF=expandable_segments:True", For: report.Applies{Framework: []string{PyTorch}, Backend: []string{"hip"}, Torch: release.V2_1.String()}, Frees: true},
			{Action: "PYTORCH_NPU_ALLOC_CONF=expandable_segments:True", Command: "export PYTORCH_NPU_ALLOC_CONF=expandable_segments:True", For: with(torch, "npu"), Frees: true},
			{Action: "PYTORCH_CUDA_ALLOC_CONF=max_split_size_mb:128 (expandable segments are not available on Windows)", Command: "set PYTORCH_CUDA_ALLOC_CONF=max_split_size_mb:128", For: report.Applies{Framework: []string{PyTorch}, Backend: []string{"cuda"}, OS: []string{"windows"}, Torch: release.V2_1.String()}},
			{Action: "PYTORCH_CUDA_ALLOC_CONF=max_split_size_mb:128, or PyTorch 2.1+ with expandable_segments:True", Command: "export PYTORCH_CUDA_ALLOC_CONF=max_split_size_mb:128", For: with(on(OldPyTorch), "cuda")},
			do(doing(torch, Training, Unstated), "fewer different shapes: pad or bucket the lengths"),
			do(doing(torch, Inference, Serving, Diffusion), "fewer different shapes: the same image size or padded lengths; torch.cuda.empty_cache() between models"),
			do(jax, "let JAX preallocate again: unset XLA_PYTHON_CLIENT_PREALLOCATE and XLA_PYTHON_CLIENT_ALLOCATOR=platform; raise XLA_PYTHON_CLIENT_MEM_FRACTION"),
			do(tf, "TF_GPU_ALLOCATOR=cuda_malloc_async"),
		},
		Note: "PyTorch suggests this setting in every out-of-memory message; where little is unused, explain says that it is not fragmentation.",
	},
	{
		ID: "stream-held", Class: Waste, Severity: report.Error,
		Title:    "Memory that was freed waits for another stream",
		Evidence: "blocks in the state active_pending_free, a twentieth of what is held or more",
		Refuted:  "as much pending after torch.cuda.synchronize()",
		Remedies: []Remedy{do(torch, "limit how far the side stream runs ahead (FSDP: limit_all_gathers=True; prefetch one batch)")},
	},
	{
		ID: "cudnn-workspace", Class: Special, Severity: report.Error,
		Title:    "The request is likely a convolution's workspace",
		Evidence: "a convolution requested more than any tensor that line made before, though nothing else grew",
		Refuted:  "an output of that convolution with exactly this many bytes",
		Remedies: []Remedy{do(torch, "torch.backends.cudnn.benchmark = False, or channels_last")},
	},
	{
		ID: "cuda-graph-pools", Class: Waste, Severity: report.Error,
		Title:    "Captured graphs keep memory for themselves",
		Evidence: "segments of private pools, or the message's figure for them",
		Refuted:  "graphs that share one pool",
		Remedies: []Remedy{
			do(torch, `torch.compile without mode="reduce-overhead" where shapes vary, or fewer graph sizes`),
			do(torch, "share one pool: torch.cuda.graph(g, pool=first.pool()), capture the largest shape first"),
		},
	},
	{
		ID: "alloc-conf-conflict", Severity: report.Warning,
		Title:    "Allocator settings work against each other",
		Evidence: "the settings in the snapshot",
		Refuted:  "settings changed during the run",
		Remedies: []Remedy{do(expandable, "expandable_segments:True alone")},
	},
}

var bytes = []Entry{
	{
		ID: "unknown", Class: General, Severity: report.Error,
		Title:    "The evidence does not show the cause",
		Evidence: "most of the memory in use has no known purpose: no stacks, no steps, or a history that begins late; a message with numbers that fit several causes",
		Refuted:  "a recording with stacks that reaches back to the start, or a log with the traceback above the message",
		Remedies: slices.Concat([]Remedy{
			{Action: "record it from the start with stacks: plimsoll run -- python train.py", Command: "plimsoll run -- python train.py", For: doing(cuda, Training, Unstated)},
		}, lessAtOnce),
	},
	{
		ID: "activations-dominate", Class: General, Severity: report.Error,
		Title:    "Activations of this step are most of what is in use: the batch is too large. From a message alone: the GPU is full and the text does not say of what",
		Evidence: "their share, what a layer keeps, and how little is unused",
		Refuted:  "a smaller batch that uses as much: then it is the model, a leak or another process",
		Remedies: lessAtOnce,
	},
	{
		ID: "kv-cache", Class: Special | FromMessage, Severity: report.Error,
		Title:    "The KV cache has no room beside the model",
		Evidence: "the server or runner says so itself, or failed while it reserved the cache or the buffers that grow with the context",
		Refuted:  "the same failure with a context a quarter as long",
		Remedies: cacheRoom,
	},
	{
		ID: "attention-quadratic", Class: Special, Severity: report.Error,
		Title:    "Attention scores of every token with every token are kept",
		Evidence: "softmax, dropout and products inside attention take a third of what is in use, or the traceback ends there",
		Refuted:  "a fused attention kernel, which never holds them",
		Remedies: []Remedy{
			do(with(torch, "npu"), "torch_npu.npu_fusion_attention, which keeps no scores"),
			do(doing(torch, Diffusion), "memory-efficient attention: --opt-sdp-attention or --xformers; pipe.enable_attention_slicing(); a smaller image"),
			do(doing(torch, Training, Inference, Serving, Data, Unstated), `a fused kernel that keeps no scores: attn_implementation="sdpa" or "flash_attention_2", F.scaled_dot_product_attention without a float mask`),
			do(doing(torch, Training, Inference, Serving, Data, Unstated), "shorter sequences: half the length is a quarter of the scores"),
			do(jax, "a fused or blockwise attention (jax.nn.dot_product_attention, Pallas flash attention, splash attention); shorter sequences"),
			do(doing(jax, Training), "jax.checkpoint (remat) around each layer"),
			do(tf, "shorter sequences; a fused attention (keras.config.enable_flash_attention())"),
		},
	},
	{
		ID: "logits", Class: Special, Severity: report.Error,
		Title:    "The logits over the whole vocabulary, and the copies the loss makes of them",
		Evidence: "the loss's requests take a quarter of what is in use, or the traceback ends there",
		Refuted:  "a loss that is computed in chunks",
		Remedies: []Remedy{
			do(training, "fused or chunked cross-entropy (Liger kernel)"),
			do(doing(torch, Inference, Serving, Unstated), "only the last token's logits: num_logits_to_keep=1 or logits_to_keep=1; smaller batches of prompts"),
			do(torch, "shorter sequences or fewer of them at once"),
			do(jax, "compute the loss over chunks of the vocabulary or of the sequence"),
		},
	},
	{
		ID: "checkpointing-ineffective", Class: Waste | FromMessage, Severity: report.Error,
		Title:    "Gradient checkpointing is on, and the layers' inner tensors stay",
		Evidence: "tensors from three lines or more inside checkpointed layers are alive for several layers; or the log has one of the two warnings about it",
		Refuted:  "checkpointed regions smaller than a layer, by design",
		Remedies: []Remedy{do(training, "use_cache=False, use_reentrant=False, with adapters enable_input_require_grads()")},
	},
	{
		ID: "dataset-on-gpu", Class: Waste | Lasting, Severity: report.Error,
		Title:    "The dataset is on the GPU",
		Evidence: "many equal tensors made by one line before training that stay through every step",
		Refuted:  "a dataset meant to stay on the GPU, with room for it",
		Remedies: []Remedy{
			do(training, "keep samples on the CPU and move each batch in the loop"),
			do(doing(torch, Inference, Serving, Diffusion, Data, Unstated), "keep the data on the CPU and move one batch at a time"),
			do(cudf, "read in parts: dask_cudf.read_csv, chunks with byte_range=, usecols=; narrower types with dtype="),
			do(cudf, "let the driver use main memory as well (slower): rmm.reinitialize(managed_memory=True)"),
			do(cupy, "work in chunks; let the driver use main memory as well (slower): cupy.cuda.set_allocator(cupy.cuda.malloc_managed)"),
			do(tf, "tf.data instead of one large tensor: tf.data.Dataset.from_generator, batched"),
			do(jax, "keep the arrays in NumPy and move one batch at a time"),
		},
	},
	{
		ID: "precision-too-high", Class: Waste | Lasting, Severity: report.Error,
		Title:    "The model runs in float64",
		Evidence: "backward starts from a gradient of 8 bytes",
		Refuted:  "a computation that needs double precision",
		Remedies: []Remedy{numerics(torch, "model.float(), x.float()")},
	},
	{
		ID: "compile", Class: Special, Severity: report.Error,
		Title:    "The request came from torch.compile: generated code, autotuning or a captured graph",
		Evidence: "the stack or traceback passes Inductor or Dynamo",
		Refuted:  "the same failure without torch.compile",
		Remedies: []Remedy{do(torch, `torch.compile(mode="default", dynamic=True)`)},
	},
}

var others = []Entry{
	{
		ID: "host-oom", Class: FromMessage | Verdict, Severity: report.Error,
		Title:    "Main memory or /dev/shm ran out, not the GPU's memory",
		Evidence: "the host allocator's error, the kernel's, a bus error of a worker; a bare SIGKILL with less confidence",
		Refuted:  "free main memory at the time of the failure",
		Remedies: hostRoom,
	},
	{
		ID: "cuda-in-workers", Class: FromMessage | Verdict, Severity: report.Error,
		Title:    "CUDA is used in forked DataLoader workers",
		Evidence: "the error of a forked process",
		Refuted:  "workers started with spawn that stay off the GPU",
		Remedies: []Remedy{do(torch, "return CPU tensors from the dataset and collate_fn; move the batch in the training loop")},
	},
	{
		ID: "library-oom", Class: FromMessage | Verdict, Severity: report.Error,
		Title:    "cuBLAS, cuDNN, NCCL, NVML or the driver could not get memory",
		Evidence: "their error codes, which do not mention \"out of memory\" or do not come from PyTorch's allocator",
		Refuted:  "several GiB free on the GPU at that moment",
		Remedies: slices.Concat(libraryRoom, seeOthers),
	},
	{
		ID: "not-an-oom", Class: Verdict, Severity: report.Error,
		Title:    "A kernel wants more on-chip shared memory than a multiprocessor has",
		Evidence: "Triton's \"out of resource: shared memory\", in kilobytes",
		Refuted:  "a message about GiB of device memory beside it",
		Remedies: []Remedy{do(anyone, "smaller block sizes or num_stages in the kernel, or a kernel built for this GPU")},
		Note:     "Batch size changes nothing.",
	},
}
