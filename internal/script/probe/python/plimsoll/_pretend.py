"""Makes a script believe in a GPU while everything stays on the CPU.

Questions about the card get the answers of a plausible one, and what only speed needs (streams, pinned memory, worker processes, torch.compile) does nothing.
Where a script goes beyond what a capture can follow (CUDA graphs, sharding), it is told so. Used for captures alone, in a process that ends at its
first training step.
"""
import contextlib
import functools
import inspect
import os
import types

CAPABILITY = (9, 0)
MEMORY = 80 << 30
STATISTICS = [f"{kind}.{pool}.{when}" for kind in ("allocation", "segment", "active", "inactive_split", "allocated_bytes", "reserved_bytes", "active_bytes",
                                                   "inactive_split_bytes", "requested_bytes")
              for pool in ("all", "large_pool", "small_pool") for when in ("current", "peak", "allocated", "freed")]
TYPES = ("Float", "Double", "Half", "BFloat16", "Byte", "Char", "Short", "Int", "Long", "Bool")


SHARDED = ("reshard", "unshard", "set_is_last_backward", "set_requires_gradient_sync", "set_requires_all_reduce", "set_reshard_after_forward", "set_reshard_after_backward",
           "set_modules_to_forward_prefetch", "set_modules_to_backward_prefetch", "set_gradient_divide_factor", "set_reduce_scatter_divide_factor", "set_unshard_in_backward")


def a_gpu(torch, capture):
    """Answer torch.cuda's questions."""
    cuda, places = torch.cuda, capture.places
    properties = types.SimpleNamespace(
        name="pretended by plimsoll", major=CAPABILITY[0], minor=CAPABILITY[1], total_memory=MEMORY, multi_processor_count=132,
        is_integrated=0, is_multi_gpu_board=0, warp_size=32, max_threads_per_multi_processor=2048, regs_per_multiprocessor=65536, L2_cache_size=50 << 20,
        shared_memory_per_block=49152, shared_memory_per_block_optin=232448, shared_memory_per_multiprocessor=233472, gcnArchName="", uuid="0", pci_bus_id=0)
    stream = _Nothing()
    answers = {
        "is_available": True, "get_device_name": properties.name, "get_device_capability": CAPABILITY,
        "get_device_properties": properties, "is_bf16_supported": True, "is_initialized": True, "init": None, "synchronize": None,
        "empty_cache": None, "ipc_collect": None, "reset_peak_memory_stats": None, "reset_max_memory_allocated": None, "memory_allocated": 0,
        "max_memory_allocated": 0, "memory_reserved": 0, "max_memory_reserved": 0, "memory_cached": 0, "max_memory_cached": 0,
        "reset_accumulated_memory_stats": None, "reset_max_memory_cached": None, "mem_get_info": (MEMORY, MEMORY),
        "memory_stats": {**dict.fromkeys(STATISTICS, 0), "num_ooms": 0, "num_alloc_retries": 0}, "memory_snapshot": [], "list_gpu_processes": "",
        "memory_summary": "", "manual_seed": None, "manual_seed_all": None, "seed": None, "seed_all": None, "initial_seed": 0,
        "set_per_process_memory_fraction": None, "get_per_process_memory_fraction": 1.0, "current_stream": stream, "default_stream": stream,
        "set_stream": None, "_lazy_init": None, "get_rng_state": torch.zeros(16, dtype=torch.uint8), "get_rng_state_all": [], "set_rng_state": None,
        "set_rng_state_all": None, "get_arch_list": ["sm_90"], "get_gencode_flags": "", "can_device_access_peer": False, "utilization": 0,
        "memory_usage": 0, "temperature": 0, "power_draw": 0, "clock_rate": 0, "cudart": stream, "is_current_stream_capturing": False, "_sleep": None,
        "get_allocator_backend": "native", "caching_allocator_alloc": 0, "caching_allocator_delete": None,
    }
    for name, answer in answers.items():
        if hasattr(cuda, name):
            for place in (cuda, cuda.memory):
                if hasattr(place, name):
                    setattr(place, name, functools.partial(_answer, answer))
    cuda.memory._record_memory_history = cuda.memory._dump_snapshot = functools.partial(_answer, None)
    cuda.Stream = cuda.Event = cuda.ExternalStream = _Nothing
    cuda.stream = cuda.StreamContext = cuda.device_of = _Nothing
    _devices(torch, places)
    _types(torch, places)
    _tools(cuda)
    _accelerator(torch, places)
    _on_cpu(torch, capture)
    _generators(torch, places)
    _not_compiled(torch, capture)
    _not_drawn(torch)
    _refusals(torch, capture)


def _answer(answer, *args, **kwargs):
    return answer


def _devices(torch, places):
    """The current GPU: only its number is kept. There are as many as the script was started for on this machine."""
    from ._machine import LOCAL_RANK_VARIABLES, number

    cuda = torch.cuda
    cuda.device_count = lambda: max(1, number(("LOCAL_WORLD_SIZE",), 1), number(LOCAL_RANK_VARIABLES, 0) + 1)
    cuda.current_device = lambda: places.index

    def set_device(device):
        named = places.named(device)
        places.index = named.index if named is not None and named.type == "cuda" else places.index

    class device:
        """with torch.cuda.device(1): …"""

        def __init__(self, device):
            self.idx = device

        def __enter__(self):
            self.before = places.index
            set_device(self.idx)

        def __exit__(self, *failure):
            places.index = self.before

    cuda.set_device, cuda.device = set_device, device


def _types(torch, places):
    """torch.cuda.FloatTensor and its kin."""

    class OnGPU(type):
        def __call__(cls, *args, **kwargs):
            made = cls.on_cpu(*args, **kwargs)
            places.put(made, places.named("cuda"))
            return made

        def __instancecheck__(cls, value):
            return isinstance(value, cls.on_cpu) and places.on_gpu(value) is not None

    for kind in TYPES:
        name = kind + "Tensor"
        setattr(torch.cuda, name, OnGPU(name, (), {"on_cpu": getattr(torch, name)}))
    default = torch.set_default_tensor_type

    def set_default_tensor_type(kind):
        on_cpu = kind.replace("torch.cuda.", "torch.") if isinstance(kind, str) else getattr(kind, "on_cpu", kind)
        default(on_cpu)
        if on_cpu is not kind and on_cpu != kind:
            places.defaults.append(places.named("cuda"))

    torch.set_default_tensor_type = set_default_tensor_type


def _tools(cuda):
    """Profilers and ranges."""
    for tool in ("nvtx", "profiler"):
        module = getattr(cuda, tool, None)
        for name in ("range_push", "range_pop", "range_start", "range_end", "mark", "start", "stop", "init"):
            if hasattr(module, name):
                setattr(module, name, functools.partial(_answer, None))
        for name in ("range", "profile"):
            if hasattr(module, name):
                setattr(module, name, lambda *args, **kwargs: contextlib.nullcontext())


def _accelerator(torch, places):
    """torch.accelerator (2.6 on), and what torch.get_device_module() asks."""
    module = getattr(torch, "accelerator", None)
    for name in ("_get_accelerator", "_accelerator_getAccelerator"):
        if hasattr(torch._C, name):
            setattr(torch._C, name, functools.partial(_answer, torch.device("cuda")))
    for name, answer in {"is_available": True, "device_count": 1, "current_accelerator": torch.device("cuda"), "synchronize": None, "current_stream": _Nothing(),
                         "set_stream": None, "empty_cache": None, "memory_allocated": 0, "max_memory_allocated": 0, "memory_reserved": 0,
                         "max_memory_reserved": 0, "memory_stats": {}, "reset_peak_memory_stats": None, "get_memory_info": (MEMORY, MEMORY)}.items():
        if hasattr(module, name):
            setattr(module, name, functools.partial(_answer, answer))
    for name in ("set_device_index", "set_device_idx"):
        if hasattr(module, name):
            setattr(module, name, torch.cuda.set_device)
    for name in ("current_device_index", "current_device_idx"):
        if hasattr(module, name):
            setattr(module, name, torch.cuda.current_device)


def _on_cpu(torch, capture):
    places = capture.places
    read, group = torch.load, getattr(torch.distributed, "init_process_group", None)

    def load(file, map_location=None, *args, **kwargs):
        made = read(file, "cpu", *args, **kwargs)
        device = places.named(map_location)
        if device is not None and device.type == "cuda":
            from ._graph import tensors

            for t in tensors(torch, made):
                places.put(t, device)
        return made

    torch.load = load
    torch.nn.parallel.DistributedDataParallel = torch.nn.parallel.distributed.DistributedDataParallel = _alone(torch, capture.buckets)
    torch.nn.DataParallel = torch.nn.parallel.DataParallel = _alone(torch)
    torch.nn.SyncBatchNorm.convert_sync_batchnorm = classmethod(lambda cls, module, process_group=None: module)
    torch.nn.SyncBatchNorm.forward = torch.nn.modules.batchnorm._BatchNorm.forward
    if group is not None:
        def init_process_group(backend=None, *args, **kwargs):
            kwargs.pop("device_id", None)
            return group("gloo", *args, **kwargs)

        torch.distributed.init_process_group = init_process_group
    if hasattr(torch, "get_default_device"):
        true = torch.get_default_device
        torch.get_default_device = lambda: places.default() or true()


FIRST_BUCKET, BUCKET = 1 << 20, 25  # bytes and MiB (torch/csrc/distributed/c10d/reducer.hpp, kDefaultFirstBucketBytes; torch/nn/parallel/distributed.py)


def bucket_sizes(parameters, cap):
    """Elements and type of DDP's buckets: gradients from the last parameter on, a bucket ends once it has its size
    (https://github.com/pytorch/pytorch/blob/v2.11.0/torch/csrc/distributed/c10d/reducer.cpp, compute_bucket_assignment_by_size)."""
    buckets, open_ = [], {}
    for p in reversed(parameters):
        count, limit = open_.pop(p.dtype, (0, cap if p.dtype in {kind for kind, _ in buckets} else min(FIRST_BUCKET, cap)))
        count += p.numel()
        if count * p.element_size() >= limit:
            buckets.append((p.dtype, count))
        else:
            open_[p.dtype] = count, limit
    return buckets + [(kind, count) for kind, (count, _) in open_.items()]


def _alone(torch, reserve=lambda sizes: None):
    class Alone(torch.nn.Module):
        """A model that the script wanted wrapped for several GPUs. DDP keeps gradients a second time, in the buckets it sends, for a single process too
        (reducer.cpp, initialize_buckets); with gradient_as_bucket_view they are the gradients themselves."""

        alone = True

        def __init__(self, module, *args, bucket_cap_mb=None, gradient_as_bucket_view=False, **kwargs):
            super().__init__()
            self.module = module
            if not gradient_as_bucket_view:
                self.buckets = reserve(bucket_sizes([p for p in module.parameters() if p.requires_grad], int((bucket_cap_mb or BUCKET) * 2**20)))

        def forward(self, *args, **kwargs):
            return self.module(*args, **kwargs)

        def no_sync(self):
            return contextlib.nullcontext()

        def register_comm_hook(self, *args, **kwargs):
            pass

        @classmethod
        def _get_active_ddp_module(cls):
            return None  # torch._dynamo asks

    return Alone


def _generators(torch, places):
    class Generator(torch.Generator):
        def __new__(cls, device="cpu"):
            made = super().__new__(cls, device=places.cpu_for(device))
            made.asked = places.named(device)
            return made

        @property
        def device(self):
            return self.asked

    torch.Generator = Generator


def _not_compiled(torch, capture):
    """Compiled code keeps other tensors than the model's own operators do; what is followed are those, and the prediction says how far the two may be apart.
    Libraries compile functions of theirs that a script never calls: a function counts when it is called."""

    def seen(backend="inductor", mode=None, options=None, **kwargs):
        capture.compiled = capture.compiled or backend == "inductor"
        if mode in ("reduce-overhead", "max-autotune") or (options or {}).get("triton.cudagraphs"):
            capture.note("torch.compile records CUDA graphs in this mode: what their private pools hold is not predicted, and may be more than this")

    def compile(model=None, **kwargs):
        if model is None:
            return lambda function: compile(function, **kwargs)
        if isinstance(model, torch.nn.Module):
            seen(**kwargs)
            object.__setattr__(model, "_orig_mod", model)
            return model
        if not inspect.isfunction(model):
            return model

        @functools.wraps(model)
        def called(*args, **given):
            seen(**kwargs)
            return model(*args, **given)

        return called

    torch.compile = compile
    torch.nn.Module.compile = lambda module, **kwargs: compile(module, **kwargs) and None


def _not_drawn(torch):
    """Scripts draw their model or export it before they train: torch.jit.trace, ONNX, TensorBoard. The model runs once, as it would there, and nothing is drawn."""
    from ._imports import when_imported

    def once(model, given, named=None):
        with torch.no_grad():
            model(*(given if isinstance(given, (tuple, list)) else () if given is None else (given,)), **(named or {}))

    def trace(model, example_inputs=None, *args, example_kwarg_inputs=None, **kwargs):
        once(model, example_inputs, example_kwarg_inputs)
        if isinstance(model, torch.nn.Module):
            object.__setattr__(model, "save", functools.partial(_answer, None))
        return model

    def export(model, args=(), *more, kwargs=None, **options):
        once(model, args, kwargs)
        return _Nothing()

    def add_graph(writer, model, input_to_model=None, *args, **kwargs):
        once(model, input_to_model)

    torch.jit.trace = trace
    when_imported("torch.onnx", lambda module: setattr(module, "export", export))
    for name in ("torch.utils.tensorboard.writer", "tensorboardX.writer"):
        when_imported(name, lambda module: setattr(module.SummaryWriter, "add_graph", add_graph))


def _refusals(torch, capture):
    """What a capture cannot follow is said where the script asks for it."""
    from ._imports import when_imported

    def refuse(what):
        return lambda *args, **kwargs: capture.fail(what)

    graphs = refuse("CUDA graphs cannot be captured: their private pools are not modelled; leave them out for the prediction")
    torch.cuda.make_graphed_callables = graphs
    for name in ("CUDAGraph", "graph"):
        setattr(torch.cuda, name, type(name, (), {"__init__": graphs}))
    sharded = refuse("a model sharded by FSDP cannot be captured: predict the script without it and add --gpus N --sharding fsdp2")

    def fully_shard(module, *args, mp_policy=None, **kwargs):
        """Of one process: the whole model is its share, and the step is that of the model without it."""
        if int(os.environ.get("WORLD_SIZE") or 1) > 1:
            sharded()
        capture.note("fully_shard was left out: this is one process with the whole model; --gpus N --sharding fsdp2 predicts one rank's share")
        for part in module if isinstance(module, (list, tuple)) else [module]:
            for name in SHARDED:
                object.__setattr__(part, name, lambda *args, **kwargs: None)
            if getattr(mp_policy, "param_dtype", None) is not None:
                capture.narrow(part, mp_policy.param_dtype)
        return module

    def without_sharding(module):
        module.FullyShardedDataParallel.__init__ = sharded
        if hasattr(module, "fully_shard"):
            module.fully_shard = fully_shard

    when_imported("torch.distributed.fsdp", without_sharding)
    engine = refuse("DeepSpeed's engine cannot be captured: predict the script without it and add --gpus N --sharding zero1, zero2 or zero3")
    when_imported("deepspeed", capture.engine(engine))


def kernels_of_triton(answer):
    """Triton's kernels fill tensors that were made for them and make none: a launch is `answer`."""
    from ._imports import when_imported

    def replace(*names):
        def change(module):
            for name in names:
                kind = getattr(module, name, None)
                if kind is not None:
                    kind.run = answer

        return change

    when_imported("triton.runtime.jit", replace("JITFunction"))
    when_imported("triton.runtime.autotuner", replace("Autotuner", "Heuristics"))


class _Nothing:
    """A stream or an event that is never waited for."""

    cuda_stream = device_index = stream_id = 0

    def __init__(self, *args, **kwargs):
        pass

    def __enter__(self):
        return self

    def __exit__(self, *failure):
        return False

    def elapsed_time(self, *args):
        return 1.0

    def query(self, *args):
        return True

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return functools.partial(_answer, None)


def loaders_at_home(module):
    """DataLoaders without workers and pinned memory: one batch is all that will be asked of them."""
    original = module.DataLoader.__init__

    @functools.wraps(original)
    def __init__(loader, *args, **kwargs):
        if len(args) > 6:
            kwargs["collate_fn"] = args[6]
        if len(args) > 8:
            kwargs["drop_last"] = args[8]
        args = args[:5]  # dataset, batch_size, shuffle, sampler, batch_sampler; num_workers would be next
        for name in ("num_workers", "pin_memory", "timeout", "worker_init_fn", "multiprocessing_context", "prefetch_factor", "persistent_workers",
                     "pin_memory_device", "in_order"):
            kwargs.pop(name, None)
        original(loader, *args, **kwargs)

    module.DataLoader.__init__ = __init__


def without_initialisation(torch):
    """Weights keep whatever the memory holds: nobody will read them, and untouched pages cost nothing."""
    for name in dir(torch.nn.init):
        if name.endswith("_") and not name.startswith("_") and callable(getattr(torch.nn.init, name)):
            setattr(torch.nn.init, name, lambda tensor, *args, **kwargs: tensor)
