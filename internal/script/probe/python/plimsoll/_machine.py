"""What a snapshot lacks: the cards, the versions, the allocator's settings, the place of this process in a distributed job."""
import os
import socket
import sys

# Read by PyTorch's allocator, by version: PYTORCH_CUDA_ALLOC_CONF always, PYTORCH_ALLOC_CONF since 2.9.
ALLOCATOR_VARIABLES = ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_HIP_ALLOC_CONF", "PYTORCH_ALLOC_CONF", "PYTORCH_NO_CUDA_MEMORY_CACHING")

RANK_VARIABLES = ("RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "PMI_RANK")
LOCAL_RANK_VARIABLES = ("LOCAL_RANK", "SLURM_LOCALID", "OMPI_COMM_WORLD_LOCAL_RANK")
WORLD_VARIABLES = ("WORLD_SIZE", "SLURM_NTASKS", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE")


def describe(torch):
    """Facts that hold for the whole life of the process."""
    return {
        "pid": os.getpid(),
        "rank": number(RANK_VARIABLES, 0),
        "local_rank": number(LOCAL_RANK_VARIABLES, 0),
        "world_size": number(WORLD_VARIABLES, 1),
        "host": socket.gethostname(),
        "argv": list(getattr(sys, "orig_argv", sys.argv)),
        "cwd": os.getcwd(),
        "python": sys.version.split()[0],
        "torch": str(torch.__version__),
        "cuda": torch.version.cuda,
        "driver": driver(),
        "allocator": {name: os.environ[name] for name in ALLOCATOR_VARIABLES if name in os.environ},
        "memory_limit": memory_limit(),
    }


def cards(torch):
    """Name and capacity of every card this process sees; needs an initialised CUDA."""
    found = []
    for i in range(torch.cuda.device_count()):
        p = torch.cuda.get_device_properties(i)
        found.append({"index": i, "name": p.name, "capacity": p.total_memory, "capability": f"{p.major}.{p.minor}"})
    return found


def number(names, default):
    for name in names:
        value = os.environ.get(name, "")
        if value.isdigit():
            return int(value)
    return default


def driver():
    """Version of NVIDIA's kernel module, e.g. "570.86.15"."""
    try:
        with open("/proc/driver/nvidia/version") as f:
            words = f.readline().split()
    except OSError:
        return None
    return next((w for w in words if w.replace(".", "").isdigit() and "." in w), None)


def memory_limit():
    """The control group's limit of host memory in bytes; None without one."""
    for path in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        try:
            with open(path) as f:
                text = f.read().strip()
        except OSError:
            continue
        if text.isdigit() and int(text) < 1 << 60:
            return int(text)
    return None


def host_memory():
    """Resident bytes of this process and what the host still has; zeros where /proc is missing."""
    resident, available = 0, 0
    try:
        with open("/proc/self/statm") as f:
            resident = int(f.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
        with open("/proc/meminfo") as f:
            available = next(int(line.split()[1]) * 1024 for line in f if line.startswith("MemAvailable"))
    except (OSError, StopIteration, ValueError):
        pass
    return resident, available
