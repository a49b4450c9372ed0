"""Makes a script believe in a GPU while everything stays on the CPU.

Devices named cuda become cpu, questions about the card get the answers of a plausible one, and what only speed needs (streams, pinned memory,
worker processes) does nothing. Used for captures alone, in a process that ends at its first training step.
"""
import contextlib
import functools
import types

CAPABILITY = (9, 0)
MEMORY = 80 << 30


def a_gpu(torch):
    """Answer torch.cuda's questions."""
    cuda = torch.cuda
    properties = types.SimpleNamespace(
        name="pretended by plimsoll", major=CAPABILITY[0], minor=CAPABILITY[1], total_memory=MEMORY, multi_processor_count=132,
        is_integrated=0, gcnArchName="")
    answers = {
        "is_available": True, "device_count": 1, "current_device": 0, "get_device_name": properties.name, "get_device_capability": CAPABILITY,
        "get_device_properties": properties, "is_bf16_supported": True, "is_initialized": True, "init": None, "set_device": None, "synchronize": None,
        "empty_cache": None, "ipc_collect": None, "reset_peak_memory_stats": None, "reset_max_memory_allocated": None, "memory_allocated": 0,
        "max_memory_allocated": 0, "memory_reserved": 0, "max_memory_reserved": 0, "mem_get_info": (MEMORY, MEMORY), "memory_stats": {},
        "memory_summary": "", "manual_seed": None, "manual_seed_all": None, "seed": None, "seed_all": None, "set_per_process_memory_fraction": None,
        "current_stream": None, "default_stream": None, "_lazy_init": None, "get_rng_state": torch.zeros(0, dtype=torch.uint8),
        "get_rng_state_all": [], "set_rng_state": None, "set_rng_state_all": None, "get_arch_list": ["sm_90"], "can_device_access_peer": False,
    }
    for name, answer in answers.items():
        if hasattr(cuda, name):
            setattr(cuda, name, functools.partial(_answer, answer))
            if hasattr(cuda.memory, name):
                setattr(cuda.memory, name, functools.partial(_answer, answer))
    cuda.Stream, cuda.Event = _Nothing, _Nothing
    cuda.stream = cuda.device = cuda.device_of = lambda *args, **kwargs: contextlib.nullcontext()
    _on_cpu(torch)


def _answer(answer, *args, **kwargs):
    return answer


def _on_cpu(torch):
    load, group = torch.load, getattr(torch.distributed, "init_process_group", None)
    torch.load = lambda *args, **kwargs: load(*args, **{**kwargs, "map_location": "cpu"})
    default = torch.set_default_device
    torch.set_default_device = lambda device: default(cpu_for(torch, device))
    torch.nn.parallel.DistributedDataParallel = torch.nn.parallel.distributed.DistributedDataParallel = _alone(torch)
    torch.nn.DataParallel = torch.nn.parallel.DataParallel = _alone(torch)
    if group is not None:
        torch.distributed.init_process_group = lambda backend=None, *args, **kwargs: group("gloo", *args, **kwargs)


def _alone(torch):
    class Alone(torch.nn.Module):
        """A model that the script wanted wrapped for several GPUs."""

        def __init__(self, module, *args, **kwargs):
            super().__init__()
            self.module = module

        def forward(self, *args, **kwargs):
            return self.module(*args, **kwargs)

        def no_sync(self):
            return contextlib.nullcontext()

    return Alone


class _Nothing:
    """A stream or an event that is never waited for."""

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
        return functools.partial(_answer, None)


def loaders_at_home(module):
    """DataLoaders without workers and pinned memory: one batch is all that will be asked of them."""
    original = module.DataLoader.__init__

    @functools.wraps(original)
    def __init__(loader, *args, **kwargs):
        args = args[:5]  # dataset, batch_size, shuffle, sampler, batch_sampler; num_workers would be next
        for name in ("num_workers", "pin_memory", "timeout", "worker_init_fn", "multiprocessing_context", "prefetch_factor", "persistent_workers",
                     "pin_memory_device"):
            kwargs.pop(name, None)
        original(loader, *args, **kwargs)

    module.DataLoader.__init__ = __init__


def without_initialisation(torch):
    """Weights keep whatever the memory holds: nobody will read them, and untouched pages cost nothing."""
    for name in dir(torch.nn.init):
        if name.endswith("_") and not name.startswith("_") and callable(getattr(torch.nn.init, name)):
            setattr(torch.nn.init, name, lambda tensor, *args, **kwargs: tensor)


def cpu_for(torch, value):
    """The device a value names, with cpu for every cuda; other values unchanged."""
    if isinstance(value, torch.device):
        return torch.device("cpu") if value.type == "cuda" else value
    if isinstance(value, str) and (value == "cuda" or value.startswith("cuda:")):
        return "cpu"
    return value
