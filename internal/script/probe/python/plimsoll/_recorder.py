"""Records what one process does to GPU memory: history, steps, phases, failures. Everything it learns goes into the report folder.

The recorder never holds a tensor, an exception or a frame, never synchronises with the GPU, never resets a counter of the script's,
and swallows its own failures: they are listed in the notes under "problems".
"""
import atexit
import functools
import os
import pickle
import sys
import threading
import time
from collections import deque

from . import _files, _frames, _holders, _holdersfile, _machine, _trackers
from ._budget import Budget
from ._keeper import Keeper

MAX_OOMS = 64  # failures described one by one; more are counted
DUMPING = 0.02  # share of the time that snapshots of failures may take; the first is always written, and so is that of the failure that ends the script
STATUS_EVERY = 1.0  # seconds between two status files
NOTES_EVERY = 2.0  # seconds between two versions of the notes

_current = None


def current():
    """The recorder of this process, or None."""
    return _current


def attach(torch, report):
    """Start recording this process into the folder; the second call returns the first one's recorder."""
    global _current
    if _current is None:
        _current = Recorder(torch, report)
        _current.install()
    return _current


def is_out_of_memory(kind, text):
    """Whether an exception means that memory ran out, in any of PyTorch's and the libraries' spellings."""
    lowered = text.lower()
    signs = ("out of memory", "cublas_status_alloc_failed", "cudnn_status_alloc_failed", "can't allocate memory", "failed to cuda calloc")
    return kind in ("OutOfMemoryError", "MemoryError") or any(sign in lowered for sign in signs)


class Recorder:
    """One process's record."""

    def __init__(self, torch, report):
        self.torch, self.report = torch, report
        self.facts = _machine.describe(torch)
        self.name = f"rank{self.facts['rank']}-{os.getpid()}"
        self.status_folder = _files.private_folder()
        self.alive, self.used = True, False
        self.device, self.cards, self.cap = None, [], None
        self.allocations = 0  # requests until now
        self.outside = None  # most bytes used on the card outside this process's allocator
        self.step, self.phase = 0, "load"
        self.peak = {"allocated": 0, "reserved": 0, "step": 0, "phase": "load"}
        self.history = _Thinned(1024)
        self.marks = deque(maxlen=4096)
        self.ooms, self.oom_count = [], 0
        self.dump_seconds, self.put_off = 0.0, None  # spent on snapshots of failures; the step of a failure whose snapshot was put off
        self.loaders, self.optimizers = [], {}
        self.problems, self.extra = [], {}
        self.before_notes = []  # calls that add to extra
        self.mode = os.environ.get("PLIMSOLL_RECORD") or "auto"
        self.keeper = Keeper(self, os.environ.get("PLIMSOLL_KEEP") == "peak")
        self.budget = Budget(adaptive=self.mode == "auto" and self._may_toggle())
        self.trackers = _trackers.Trackers(self) if _trackers.wanted() else None
        self.with_stacks, self.ring = True, None  # of the history that PyTorch keeps: whether it has stacks, and how many events
        self.by_phase = True  # whether the phases of this step are told apart
        self.started, self.began = time.time(), time.monotonic()  # clocks jump: what lies between two moments is told by the second
        self.last_status = self.last_notes = float("-inf")
        self.error = None
        self.finished = False

    # Attaching ---------------------------------------------------------------------------------------------------------------

    def install(self):
        torch = self.torch
        os.makedirs(self.report, exist_ok=True)
        if hasattr(os, "register_at_fork"):  # Windows does not fork
            os.register_at_fork(after_in_child=self._forked)
        atexit.register(self.finish)
        _frames.hide_from_tracebacks()
        self._watch_for_the_end()
        self._try(lambda: torch.cuda._lazy_call(lambda: self._try(self._on_cuda)))
        self._try(self._hook_optimizers)
        self._try(self._hook_backward)
        self._try(self._hook_evaluation)
        self._try(self._hook_cap)
        self._try(lambda: _holders.watch_hooks(torch))
        self._try(self.keeper.listen)
        from ._imports import when_imported

        when_imported("torch.utils.data.dataloader", self._hook_loaders)

    def _watch_for_the_end(self):
        """A rank that memory ends says so at once: it may hang on its way out, and the others wait for it."""
        previous = sys.excepthook

        def excepthook(kind, value, traceback):
            previous(kind, value, traceback)
            if self.alive and is_out_of_memory(kind.__name__, str(value)):
                self._try(self.gone)
                self._try(self.settle)

        sys.excepthook = excepthook

    def gone(self):
        """Tell whoever started this job that one of its ranks will not go on; without other ranks there is no one to wait for it."""
        distributed = self.torch.distributed
        joined = distributed.is_available() and distributed.is_initialized() and distributed.get_world_size() > 1
        if joined or self.facts["world_size"] > 1:
            _files.write_json(os.path.join(self.report, self.name + ".gone"), {"pid": os.getpid(), "run": os.environ.get("PLIMSOLL_RUN", "")})

    def _forked(self):
        # A forked worker inherits this object but is not the process it describes.
        self.alive = False

    def _try(self, call):
        """Run a piece of the probe; its failure is noted and never reaches the script."""
        try:
            return call()
        except Exception as problem:
            if len(self.problems) < 32:
                self.problems.append(repr(problem)[:300])
            return None

    def _may_toggle(self):
        # Up to PyTorch 2.2 every call of _record_memory_history clears the history (torch/csrc/cuda/memory_snapshot.cpp).
        major, minor = (self.facts["torch"].split(".") + ["0"])[:2]
        return (int(major), int("".join(c for c in minor if c.isdigit()) or 0)) >= (2, 3)

    def _on_cuda(self):
        self.used = True
        self.cards = self._try(lambda: _machine.cards(self.torch)) or []
        self._record_history(self.mode != "light")
        observe = getattr(self.torch._C, "_cuda_attach_out_of_memory_observer", None)
        if observe is not None:
            observe(self._on_oom)

    def _record_history(self, stacks):
        if self.mode == "off":
            return
        record = self.torch.cuda.memory._record_memory_history
        if self.ring not in (None, self.budget.ring):
            # Empty it first: a ring that holds more than its new size is written behind its end (RingBuffer::insertEntries in c10/cuda/CUDACachingAllocator.cpp,
            # 2.11; c10/core/RingBuffer.h in 2.15). Switching recording off empties it.
            record(None)
        self.ring = self.budget.ring
        record("all", context="alloc" if stacks else None, stacks="python", max_entries=self.ring)
        self.with_stacks = stacks

    def _hook_optimizers(self):
        from torch.optim import optimizer

        optimizer.register_optimizer_step_pre_hook(lambda opt, args, kwargs: self._step_begins(opt))
        optimizer.register_optimizer_step_post_hook(lambda opt, args, kwargs: self._step_ended(opt))
        original = optimizer.Optimizer.__init__

        @functools.wraps(original)
        def __init__(opt, *args, **kwargs):
            original(opt, *args, **kwargs)
            self._try(lambda: self._saw_optimizer(opt))

        optimizer.Optimizer.__init__ = __init__

    def _hook_backward(self):
        autograd = self.torch.autograd
        autograd.backward = _frames.around(autograd.backward, self._backward_begins, self._backward_ended)

    def _hook_evaluation(self):
        """Evaluation is no step of an optimizer: from model.eval() until the next one, allocations carry stacks again."""
        module = self.torch.nn.Module
        original = module.train

        @functools.wraps(original)
        def train(module, mode=True):
            if not mode and not self.with_stacks and self.alive and self.budget.adaptive and self.device is not None:
                self._try(lambda: self._record_history(True))
            return original(module, mode)

        module.train = train

    def _hook_cap(self):
        cuda = self.torch.cuda
        original = cuda.set_per_process_memory_fraction

        def set_per_process_memory_fraction(fraction, device=None):
            original(fraction, device)
            self.cap = fraction

        cuda.set_per_process_memory_fraction = set_per_process_memory_fraction
        cuda.memory.set_per_process_memory_fraction = set_per_process_memory_fraction

    def _hook_loaders(self, module):
        original = module.DataLoader.__init__

        def __init__(loader, *args, **kwargs):
            original(loader, *args, **kwargs)
            self._try(lambda: self._saw_loader(loader))

        module.DataLoader.__init__ = __init__

    # Events of the script ----------------------------------------------------------------------------------------------------

    def _saw_loader(self, loader):
        if self.alive and len(self.loaders) < 16:
            self.loaders.append({"batch": loader.batch_size, "sampler": type(loader.sampler).__name__, "workers": loader.num_workers})

    def _saw_optimizer(self, optimizer):
        kind = type(optimizer).__name__
        if self.alive and kind not in self.optimizers:
            self.optimizers[kind] = {**_describe_optimizer(optimizer), "leads": not self.optimizers}

    def _backward_begins(self):
        self._enter("backward")

    def _backward_ended(self):
        self._enter("forward")

    def _step_begins(self, optimizer):
        self._enter("optimizer")

    def _step_ended(self, optimizer):
        if not self.alive:
            return
        self._try(lambda: self._count_step(optimizer))

    def _count_step(self, optimizer):
        self._saw_optimizer(optimizer)
        if not self.optimizers[type(optimizer).__name__]["leads"]:
            self._enter("forward")
            return  # a second kind of optimizer steps within the same iteration
        before = self.peak["allocated"]
        if self.by_phase or self.budget.counts_in(self.step):
            self._note_step()
        self.step += 1
        self.used = True
        self._begin("forward")
        self.by_phase = self.budget.phases_in(self.step, self.peak["allocated"] > before)
        if self.device is not None and self.budget.adaptive:
            stacks = self.budget.stacks_in(self.step)
            if stacks != self.with_stacks or self.ring != self.budget.ring:
                self._record_history(stacks)
        self.flush()

    def _note_step(self):
        now = time.monotonic()
        allocated, reserved = self._note_peak()
        self.history.add([self.step, round(now - self.began, 3), allocated, self.peak["allocated"], reserved])
        self.keeper.stepped(allocated)
        self.budget.step_done(self.step, now, time.thread_time(), self.allocations)

    def _enter(self, phase):
        """A phase begins; what was measured until now belongs to the one that ends."""
        if not self.alive:
            return
        if self.by_phase:
            self._try(self._note_peak)
        self._begin(phase)

    def _begin(self, phase):
        self.phase = phase
        self._try(lambda: self.keeper.entered(phase))
        self.mark(f"{self.step} {phase}")

    def _note_peak(self):
        """What was reached until now, under the phase that is (none where phases are not told apart); returns what is allocated and reserved. Asking the allocator
        is most of what a phase costs."""
        allocated, peak, reserved, reserved_peak = self._memory()
        phase = "forward" if self.phase == "load" and self.step == 0 else self.phase if self.by_phase else ""
        if peak > self.peak["allocated"]:
            self.peak.update(allocated=peak, step=self.step, phase=phase)
        self.peak["reserved"] = max(self.peak["reserved"], reserved_peak)
        return allocated, reserved

    def mark(self, label):
        """Name this moment: in the marks with its time, and on the allocator's events where this PyTorch can (2.10 on)."""
        self.marks.append([int(time.time() * 1e6), label])
        name = getattr(self.torch._C, "_cuda_setMemoryMetadata", None)
        if name is not None and self.device is not None:
            self._try(lambda: name(label))

    def _memory(self):
        """Allocated and reserved bytes of the current device, now and at most; zeros without an initialised CUDA."""
        torch = self.torch
        if not torch.cuda.is_initialized():
            return 0, 0, 0, 0
        self.device = torch._C._cuda_getDevice()
        stats = torch._C._cuda_memoryStats(self.device)
        allocated, reserved = stats["allocated_bytes"]["all"], stats["reserved_bytes"]["all"]
        self.allocations = stats["allocation"]["all"]["allocated"]
        return allocated["current"], allocated["peak"], reserved["current"], reserved["peak"]

    def _on_oom(self, device, requested, total, free):
        """PyTorch calls this when a request has failed, before the exception is raised and anything is freed."""
        if self.alive:
            self._try(lambda: self._describe_oom(device, requested, total, free))

    def _describe_oom(self, device, requested, total, free):
        self.oom_count += 1
        self.used = True
        stats = self.torch._C._cuda_memoryStats(device)
        self._note_peak()
        del self.ooms[:-MAX_OOMS + 1]
        self.ooms.append({
            "time": time.time(), "device": device, "requested": requested, "limit": total, "device_free": free,
            "allocated": stats["allocated_bytes"]["all"]["current"], "reserved": stats["reserved_bytes"]["all"]["current"],
            "step": self.step, "phase": self.phase, "stack": _frames.script_stack(),
        })
        if self.dump_seconds <= DUMPING * (time.monotonic() - self.began):
            self.dump("oom")
        else:
            self.put_off = self.step
        self.flush(force=True)

    def settle(self):
        """Write the snapshot of the last failure where that was put off: it ended the script, or somebody asks for it. The history still has the failing request, and an uncaught
        exception keeps the frames it passed, with their tensors."""
        if self.put_off is not None:
            self.dump("oom")

    # Writing -----------------------------------------------------------------------------------------------------------------

    def dump(self, when, name=None):
        """Write the allocator's snapshot of every device, and who holds what is alive; the name stands for both files."""
        if not self.torch.cuda.is_initialized() or self.mode == "off":
            return
        began = time.monotonic()
        if name is None:
            self.put_off = None
            self.keeper.superseded()
        name = name or self.name
        snapshot = self.torch.cuda.memory._snapshot()
        found = self.look(when, _holders.blocks(snapshot))
        if _files.write_with(os.path.join(self.report, name + ".pickle"), lambda f: pickle.dump(snapshot, f, protocol=4)):
            if name == self.name:
                self.extra["snapshot"] = name + ".pickle"
            self._try(lambda: _holdersfile.write(os.path.join(self.report, name + _holdersfile.ENDING), found))
        if when == "oom":
            self.dump_seconds += time.monotonic() - began
        return found

    def look(self, when, blocks=None):
        """Who holds the memory of the cards now; see _holders.look."""
        facts = {"when": when, "rank": self.facts["rank"], "step": self.step, "phase": self.phase}
        return _holders.look(self.torch, "cuda", blocks, facts=facts)

    def flush(self, force=False):
        """Write status and notes when they are due. Processes that never trained or touched a GPU leave none."""
        if not self.alive or not self.used:
            return
        now = time.monotonic()
        if force or now - self.last_status >= STATUS_EVERY:
            self.last_status = now
            self._try(self._write_status)
        if force or now - self.last_notes >= NOTES_EVERY:
            self.last_notes = now
            self._try(self._note_outside)
            if self.trackers is not None:
                self._try(self.trackers.log)
            self._try(lambda: _files.write_json(os.path.join(self.report, self.name + ".json"), self.notes()))

    def _note_outside(self):
        """What others, and CUDA's own context, use of the card: all that is used there less what this allocator holds. Not while a graph is captured: no call
        that is not recorded may be made then."""
        cuda = self.torch.cuda
        if self.device is None or not cuda.is_initialized() or cuda.is_current_stream_capturing():
            return
        reserved = self._memory()[2]
        free, total = cuda.mem_get_info(self.device)
        self.outside = max(self.outside or 0, total - free - reserved)

    def _write_status(self):
        if self.status_folder is None:
            return
        allocated, _, reserved, _ = self._memory()
        _files.write_json(os.path.join(self.status_folder, f"run-{os.getpid()}.json"), {
            "schema": "plimsoll.status/1", "pid": os.getpid(), "rank": self.facts["rank"], "step": self.step, "phase": self.phase,
            "allocated": allocated, "reserved": reserved, "peak_allocated": self.peak["allocated"],
            "device": self.device if self.device is not None else "cpu", "time": time.time(), **self.keeper.status(),
        })

    def notes(self):
        """Everything known, as it goes into the report folder."""
        for call in self.before_notes:
            self._try(call)
        resident, available = _machine.host_memory()
        return {
            "schema": "plimsoll.notes/1", "run": os.environ.get("PLIMSOLL_RUN", ""), **self.facts, "started": self.started, "written": time.time(), "ended": self.finished,
            "device": self.device, "cards": self.cards, "cap_fraction": self.cap, "outside": self.outside, "step": self.step, "phase": self.phase,
            "peak": self.peak, "history_columns": ["step", "seconds", "allocated", "peak_allocated", "reserved"],
            "history": self.history.rows, "marks": list(self.marks), "ooms": self.ooms, "oom_count": self.oom_count, "error": self.error,
            "loaders": self.loaders, "optimizers": self.optimizers, "host": {"name": self.facts["host"], "resident": resident, "available": available},
            "recording": {"mode": self.mode, "stacks_every": self.budget.period, "stack_cost": self.budget.cost, "max_entries": self.budget.ring},
            "problems": self.problems, **self.extra,
        }

    def finish(self, snapshot=False):
        """The process ends: write what is known, with the error that ended it."""
        if not self.alive:
            return {}
        self._try(self._note_error)
        self._try(self._note_peak)
        if snapshot:
            self._try(lambda: self.dump("demand"))
        elif self.put_off is not None and (self.put_off == self.step or (self.error or {}).get("out_of_memory")):
            self._try(self.settle)  # no step followed: it ended the script, whoever caught it
        else:
            self._try(self.keeper.ending)
        self.finished = True
        self.flush(force=True)
        if self.status_folder is not None:
            _files.remove(os.path.join(self.status_folder, f"run-{os.getpid()}.json"))
        return self._try(self.notes) or {}

    def _note_error(self):
        # The interpreter leaves an uncaught exception in sys.last_value before it calls any excepthook.
        error = getattr(sys, "last_value", None)
        if error is None or threading.current_thread() is not threading.main_thread():
            return
        import traceback

        kind, text = type(error).__name__, str(error)
        self.error = {
            "type": kind, "message": text[:8000], "out_of_memory": is_out_of_memory(kind, text),
            "traceback": "".join(traceback.format_exception(type(error), error, error.__traceback__))[-16000:],
        }
        self.used = self.used or self.error["out_of_memory"]


class _Thinned:
    """A list that never grows beyond its limit: when full, every second row goes and from then on half as many come in."""

    def __init__(self, limit):
        self.limit, self.rows, self.stride, self.seen = limit, [], 1, 0

    def add(self, row):
        if self.seen % self.stride == 0:
            self.rows.append(row)
        self.seen += 1
        if len(self.rows) >= self.limit:
            del self.rows[1::2]
            self.stride *= 2


def _describe_optimizer(optimizer):
    group = optimizer.param_groups[0] if optimizer.param_groups else {}
    parameters = sum(p.numel() * p.element_size() for g in optimizer.param_groups for p in g["params"])
    return {"class": type(optimizer).__name__, "foreach": group.get("foreach"), "fused": group.get("fused"), "parameter_bytes": parameters,
            "momentum": bool(group.get("momentum"))}
