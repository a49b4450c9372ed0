"""Follows a script through all it does, on tensors without data, and writes down every byte it would hold on its GPU.

What the script puts on the GPU becomes a tensor that has a shape and no data. PyTorch itself runs forward, backward and optimizers on these; each storage
that begins or ends is an event. So evaluation, generation, checkpoints, second backward passes and updates by hand are followed as they are. The trace ends
with the script, when its loops only repeat, or at a time limit; it says which, and where the script was.
"""
import array
import atexit
import contextlib
import gzip
import os
import sys
import threading
import time
import weakref

from . import _again, _children, _clusters, _cudarules, _deepspeed, _files, _frames, _graph, _internals, _known, _lazy, _loops, _narrow, _places, _pretend, _recurrent, _routing, _shadow, _shapes, _sparse, _tables, _tracemode, _works
from ._imports import when_imported

OLDEST = (2, 4)
SECONDS = 120
MOST_EVENTS = 6_000_000
ALLOC, FREE, MARK, WORK = range(4)
RESERVE = "cudnn reserve"
FEW = 64  # rows of a result that depends on data, up to which a tensor of as many means nothing
SLACK = 100  # a call that repeats is run again where this part of the peak more is in use


def attach(torch, report):
    trace = Trace(torch, report)
    if tuple(int(n) for n in torch.__version__.split(".")[:2]) < OLDEST:
        trace.fail(f"a trace needs PyTorch {OLDEST[0]}.{OLDEST[1]} or newer, this is {torch.__version__}")
    gone = _internals.missing(torch, _internals.FOR_TRACES)
    if gone:
        trace.fail(f"PyTorch {torch.__version__} changed internals that this depends on: {', '.join(gone)}")
    try:
        trace.install()
    except Exception as problem:  # running on would train for real
        trace.fail(f"PyTorch {torch.__version__} cannot be traced: {problem!r}")


class Trace:
    def __init__(self, torch, report):
        self.torch, self.report = torch, report
        self.places = _places.Places(torch)
        self.events = array.array("q")
        self.live, self.number = {}, 0  # storages by address
        self.owners, self.moments, self.works = _tables.Table(), _tables.Table(), _tables.Table()
        self.category, self.paths = "other", []
        self.phase, self.steps, self.backwards = "load", 0, 0
        self.level = self.highest = self.since = 0
        self.tainted, self.reasons = set(), {}
        self.counts = set()  # rows of results that depend on data: a script makes tensors of as many
        self.routing, self.routed, self.routes = _routing.Routing(torch), set(), {}  # storages of an expert's share
        self.routed_level = self.routed_highest = 0
        self.sparse, self.counting = _sparse.Sparse(torch, self), True
        self.known = _known.Known(torch, self)
        self.ours = {}  # by operator: what stands for it before autograd, as a GPU does it
        self.optimizers, self.modules = weakref.WeakSet(), weakref.WeakSet()
        self.names, self.aliases = weakref.WeakKeyDictionary(), _places.Aliases()
        self.histories = weakref.WeakKeyDictionary()
        self.notes, self.asked, self.done, self.depth = [], None, False, 0
        self.compiled = False
        self.cut = False  # a loop that keeps something of every batch was not followed to its end
        # One thread at a time works on tensors without data: their mode has one state for all of them
        # (https://github.com/pytorch/pytorch/blob/v2.11.0/torch/_subclasses/fake_tensor.py, in_kernel_invocation), and transformers loads weights in several.
        self.turn = threading.RLock()
        self.begun = time.monotonic()
        self.limit = float(os.environ.get("PLIMSOLL_SECONDS") or SECONDS)
        self.loops = _loops.Loops(self)
        self.repeats = _again.Repeats(torch, _loops.BATCHES)
        self.shadow = _shadow.Shadow(torch, os.path.join(report, "written"), self)

    def note(self, text):
        if text not in self.notes:
            self.notes.append(text)

    # What the pretended GPU and the first mode ask of a capture
    in_model, exporting = 0, False

    def tensors(self, value):
        return _graph.tensors(self.torch, value)

    def saw_question(self):
        self.asked = _frames.script_line()

    # Attaching -----------------------------------------------------------------------------------------------------------------

    def install(self):
        torch = self.torch
        from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
        from torch.utils import _python_dispatch

        self.FakeTensor = FakeTensor
        self.entered = _python_dispatch._get_current_dispatch_mode_stack
        self.fake = FakeTensorMode(allow_non_fake_inputs=True)
        self.operators = _tracemode.operators(torch, self)
        _pretend.a_gpu(torch, self)
        self.shadow.attach()
        _pretend.without_initialisation(torch)
        when_imported("torch.utils.data.dataloader", _pretend.loaders_at_home)
        when_imported("torch.utils.data.dataloader", self.loops.watch)
        when_imported("transformers.generation.utils", _loops.generation)
        when_imported("transformers.utils.import_utils", _known.values_can_be_asked_for)
        _cudarules.install(torch, _pretend.CAPABILITY, self)
        _shapes.install(torch)
        _clusters.install(torch, lambda t: isinstance(t, FakeTensor))
        _lazy.install(torch, self.lazy_arrives)
        _pretend.kernels_of_triton(lambda *args, **kwargs: None)
        _places.install(torch, self.places)
        self.places.unreal = torch.device("cuda", 0)
        self._addresses()
        self._modules()
        self._backward()
        self._optimizers()
        self._scaler()
        self.calibrate()
        _tracemode.enter(torch, self)
        os.environ.setdefault("WANDB_MODE", "disabled")
        atexit.register(self.ended)
        sys.excepthook = lambda *failure: None  # told in the trace
        watchdog = threading.Timer(self.limit, lambda: self.finish("time"))
        watchdog.daemon = True
        watchdog.start()

    def calibrate(self):
        """Add two gradients up that nobody else has: how many references such a tensor has here depends on PyTorch's release."""
        torch = self.torch
        with self.uncounted(), self.during("backward", "activations"), self.fake, self.operators, torch.enable_grad():
            x = torch.empty(2, requires_grad=True)
            between = x * 2
            torch.autograd.Variable._execution_engine.run_backward((between.sin() + between.cos(),), (torch.empty(2),), False, False, (), allow_unreachable=True, accumulate_grad=True)
        self.events = array.array("q")
        self.phase, self.category = "load", "other"

    def hurried(self):
        """Half of the time is over: loops end after one round."""
        return self.while_over(2)

    def while_over(self, part):
        return time.monotonic() - self.begun > self.limit / part

    def _addresses(self):
        """Storages without data have an address each, too: libraries that save weights tell by it which of them are one."""
        kind = self.torch.UntypedStorage
        original = kind.data_ptr
        kind.data_ptr = lambda storage: original(storage) or storage._cdata

    def _modules(self):
        nn, trace = self.torch.nn, self
        original = nn.Module.__call__

        def __call__(module, *args, **kwargs):
            outer = not trace.paths
            if outer:
                trace.enter_model(module)
            key = trace.repeats.key(module, args, kwargs) if outer or module._modules else None
            before = trace.level
            known = trace.repeats.result(key, trace.made, before, trace.highest // SLACK) if key is not None else None
            if known is not None:
                return known[0]
            trace.paths.append(trace.names.get(module) or type(module).__name__)
            try:
                out = original(module, *args, **kwargs)
            finally:
                trace.paths.pop()
            trace.repeats.ran(key, out, before, trace.level)
            return out

        nn.Module.__call__ = __call__
        nn.Module._apply = self._apply(nn.Module._apply)
        _recurrent.install(self.torch, self)

    def made(self, shape, dtype):
        with self.recording():
            return self.torch.empty(shape, dtype=dtype)

    def enter_model(self, module):
        if self.phase == "backward" and self.depth:  # a checkpoint runs again
            return
        if module not in self.modules:
            self.modules.add(module)
            for name, m in module.named_modules():
                self.names.setdefault(m, name or type(m).__name__)
        if self.phase == "backward" and not self.optimizers:  # weights are updated by hand: a step has ended
            self.stepped()
        learns = self.torch.is_grad_enabled() and any(p.requires_grad for p in module.parameters())
        self.enter("forward" if learns and module.training else "eval", "activations")

    def enter(self, phase, category):
        if phase != self.phase or self.category != category:
            self.phase, self.category = phase, category
            self.event(MARK, self.moments.at((self.steps + 1, phase)), 0, 0)

    def _backward(self):
        torch = self.torch
        run = torch.autograd.backward
        gradients = torch.autograd.grad

        def backward(*args, **kwargs):
            if not self.shadow.on:
                self.shadow.install()
            if self.phase == "backward" and not self.optimizers and not self.depth:  # no model was called since the last one: tensors of the script's own are trained by hand
                self.stepped()
            with self.during("backward", "activations"), self.recording():
                run(*args, **kwargs)
            self.backwards += 1
            self.claim_gradients()

        def grad(*args, **kwargs):
            with self.during("backward", "activations"), self.recording():
                return gradients(*args, **kwargs)

        torch.autograd.backward, torch.autograd.grad = backward, grad
        engine = torch.autograd._engine_run_backward

        def run_engine(*args, **kwargs):
            """PyTorch hands backward() to the first mode, which is off meanwhile: autograd functions of a script's own ask for devices in backward, too."""
            with self.pretending():
                return engine(*args, **kwargs)

        torch.autograd._engine_run_backward = run_engine
        torch.Tensor.backward = lambda tensor, gradient=None, retain_graph=None, create_graph=False, inputs=None: backward(
            tensor, gradient, retain_graph, create_graph, inputs=inputs)

    @contextlib.contextmanager
    def during(self, phase, category):
        before = self.phase, self.category
        self.depth += 1
        self.enter(phase, category)
        try:
            yield
        finally:
            self.depth -= 1
            if self.depth:
                self.enter(*before)

    def _optimizers(self):
        from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

        kind = self.torch.optim.Optimizer
        original = kind.__init__

        def __init__(optimizer, *args, **kwargs):
            original(optimizer, *args, **kwargs)
            self.optimizers.add(optimizer)

        kind.__init__ = __init__
        register_optimizer_step_pre_hook(self.before_step)
        register_optimizer_step_post_hook(self.after_step)

    def before_step(self, optimizer, args, kwargs):
        self.enter("optimizer", "optimizer")
        self.open = self.recording()
        self.open.__enter__()

    def after_step(self, optimizer, args, kwargs):
        self.open.__exit__(None, None, None)
        for state in optimizer.state.values():
            for t in self.tensors(state if isinstance(state, dict) else {}):
                self.claim(t, "optimizer")
        self.remember(optimizer)
        self.stepped()
        self.enter("other", "other")

    def remember(self, optimizer):
        """LBFGS keeps up to so many earlier steps and gradients (torch/optim/lbfgs.py, old_stps and old_dirs); how many, only values would tell."""
        history = optimizer.param_groups[0].get("history_size") if optimizer.param_groups else None
        if history is None or optimizer in self.histories:
            return
        parameters = [p for group in optimizer.param_groups for p in group["params"] if isinstance(p, self.FakeTensor)]
        with self.torch.no_grad(), self.recording("optimizer"):
            self.histories[optimizer] = [parameters[0].new_empty(sum(p.numel() for p in parameters)) for _ in range(2 * history)] if parameters else []
        for t in self.histories[optimizer]:
            self.depends(t)

    def stepped(self):
        """A step has ended: when nothing new has come for a while, the script is not followed further."""
        self.steps += 1
        if self.highest > self.since_highest:
            self.since_highest, self.since = self.highest, self.steps
        if self.steps - self.since > _loops.LIKE and not self.loops.passes and self.while_over(4):
            self.finish("repeats", "loop")

    since_highest = 0

    def _scaler(self):
        torch = self.torch
        for kind in {torch.cuda.amp.GradScaler, getattr(torch.amp, "GradScaler", torch.cuda.amp.GradScaler)}:
            kind.scale = lambda scaler, outputs: outputs
            kind.unscale_ = kind.update = lambda scaler, *args, **kwargs: None
            kind.step = lambda scaler, optimizer, *args, **kwargs: optimizer.step(*args, **kwargs)

    # Tensors that go to the GPU and leave it -------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def recording(self, category=None):
        with self.turn:
            before, self.category = self.category, category or self.category
            with contextlib.nullcontext() if self.operators in self.entered() else self.modes():
                try:
                    yield
                finally:
                    self.category = before

    @contextlib.contextmanager
    def modes(self):
        with self.fake, self.operators:
            yield

    @contextlib.contextmanager
    def uncounted(self):
        before, self.counting = self.counting, False
        try:
            yield
        finally:
            self.counting = before

    def narrow(self, module, dtype):
        _narrow.install(self, module, dtype)

    def engine(self, refuse):
        return _deepspeed.install(self, refuse)

    def buckets(self, sizes):
        """What DDP keeps beside the gradients."""
        with self.recording("gradients"):
            return [self.torch.empty(count, dtype=kind) for kind, count in sizes]

    def to_gpu(self, tensor, change=lambda t: t):
        """A tensor without data in place of one the script has on the host."""
        category = "parameters" if isinstance(tensor, self.torch.nn.Parameter) else "inputs" if self.phase != "load" else "other"
        alias = self.aliases.of(tensor)
        if alias is not None:
            return alias
        if self.torch.Tensor.layout.__get__(tensor) is not self.torch.strided and not isinstance(tensor, self.FakeTensor):
            return self.sparse.arrives(tensor)
        shape = self.torch.empty_like(tensor.detach(), device="meta") if not isinstance(tensor, self.FakeTensor) else tensor
        with self.torch.no_grad(), self.recording(category):
            made = self.torch.empty_strided(shape.shape, shape.stride(), dtype=shape.dtype)
            made = change(made)
            if _tracemode.depends_on_data(tensor):
                self.depends(made)
        self.known.arrives(tensor, made, change)
        return made.requires_grad_(tensor.requires_grad) if tensor.is_leaf and tensor.requires_grad else made

    def to_cpu(self, tensor, change=lambda t: t):
        with self.turn, self.fake:
            made = change(tensor.clone() if not tensor.requires_grad else tensor.view_as(tensor))
        if not tensor.is_contiguous() and (made.dtype != tensor.dtype or tensor.untyped_storage().nbytes() != tensor.numel() * tensor.element_size()):
            # Laid out in one piece before it leaves the card
            # (https://github.com/pytorch/pytorch/blob/v2.11.0/aten/src/ATen/native/cuda/Copy.cu, copy_requires_temporaries).
            with self.torch.no_grad(), self.recording("other"):
                tensor.contiguous()
        if made is tensor:
            made = tensor.view_as(tensor)
        self.known.arrives(tensor, made, change)
        setattr(made, _places.MARK, self.torch.device("cpu"))
        return made

    def _apply(self, original):
        def _apply(module, fn, recurse=True):
            if recurse:
                for child in module.children():
                    child._apply(fn)
            for key, param in module._parameters.items():
                if param is not None:
                    module._parameters[key] = self.applied(param, fn)
            for key, buffer in module._buffers.items():
                if buffer is not None:
                    module._buffers[key] = _lazy.send(buffer, fn) if _lazy.waits(self.torch, buffer) else fn(buffer)
            return module

        return _apply

    def lazy_arrives(self, module):
        """A lazy module has got its parameters: they go where it had been sent."""
        for key, param in module._parameters.items():
            for fn in _lazy.sent(param):
                module._parameters[key] = self.applied(module._parameters[key], fn)
        for key, buffer in module._buffers.items():
            for fn in _lazy.sent(buffer):
                module._buffers[key] = fn(module._buffers[key])

    def applied(self, param, fn):
        """What becomes of a parameter that is moved or converted: one object, whoever else refers to it."""
        if _lazy.waits(self.torch, param):
            return _lazy.send(param, fn)
        alias = self.aliases.of(param)
        if alias is not None:
            param = alias
        with self.torch.no_grad(), self.as_parameters():
            made = fn(param)
        if made is param:
            return param
        return self.replace(param, made)

    @contextlib.contextmanager
    def as_parameters(self):
        before, self.category = self.category, "parameters"
        try:
            yield
        finally:
            self.category = before

    def replace(self, param, made):
        if not isinstance(made, self.FakeTensor) and not isinstance(param, self.FakeTensor):
            with self.torch.no_grad():
                param.data = made.detach()
            return param
        new = made.detach()
        for name, value in made.__dict__.items():
            if name == _places.MARK:
                setattr(new, name, value)
        new.requires_grad_(param.requires_grad)
        new._is_param = True
        if param.grad is not None:
            new.grad = param.grad
        self.aliases.put(param, new)
        for optimizer in self.optimizers:
            for group in optimizer.param_groups:
                group["params"] = [new if p is param else p for p in group["params"]]
            if param in optimizer.state:
                optimizer.state[new] = optimizer.state.pop(param)
        return new

    def shapes_of(self, value):
        keep = lambda t: _tables.Shape(t.shape, t.dtype, self.places.on_gpu(t))
        return _tables.mapped(self.torch, value, keep)

    def on_gpu(self, value):
        """A checkpoint that was loaded to the GPU."""
        return _tables.mapped(self.torch, value, self.to_gpu)

    def numbers(self, tensor):
        """What a tensor on the host has, whatever mode is on."""
        from torch.utils._python_dispatch import _disable_current_modes

        with _disable_current_modes():
            return tensor.tolist()

    def on_host(self, numbers):
        """A tensor of these whole numbers, with data, whatever mode is on."""
        from torch.utils._python_dispatch import _disable_current_modes

        with _disable_current_modes():
            return self.torch.tensor(numbers)

    def made_from(self, value, map_location):
        device = self.places.named(map_location)

        def make(shape):
            to = device if device is not None else shape.device
            if to is None or to.type != "cuda":
                return self.torch.zeros(shape.shape, dtype=shape.dtype)
            with self.recording("other"):
                return self.torch.empty(shape.shape, dtype=shape.dtype)

        return _tables.shaped(value, make)

    # Events --------------------------------------------------------------------------------------------------------------------

    def event(self, kind, a, b, c):
        self.events.extend((kind, a, b, c))

    def saw(self, func, args, kwargs, out):
        """An operator ran."""
        given = self.tensors((args, kwargs)) if self.tainted or self.routed or self.counts else ()
        tainted, routed = self.among(given, self.tainted), self.among(given, self.routed)
        if self.counts and not given and not tainted:
            tainted = any(isinstance(t, self.FakeTensor) and not self.counts.isdisjoint(t.shape) for t in self.tensors(out))
        multiplied = bool(self.sparse.known) and self.sparse.saw(func, args, kwargs, out)
        begin = lambda t: isinstance(t, self.FakeTensor) and self.begin(t, func, tainted, routed)
        if not _works.took_apart(self, func, args, out, tainted, begin):
            for t in _works.in_order(func, self.tensors(out)):
                begin(t)
            _works.took(self, func, args, kwargs, out, tainted, multiplied)
        self.routing.saw(func, args, kwargs, out)

    def passing(self, sizes, func, tainted):
        """Memory of these sizes begins, for the time of a kernel: its numbers."""
        owner = self.owners.at((self.category, self.paths[-1] if self.paths else "", str(func).removesuffix(".default"), bool(tainted)))
        first = self.number
        for size in sizes:
            self.event(ALLOC, self.number, size, owner)
            self.number += 1
        self.highest = max(self.highest, self.level + sum(sizes))
        return range(first, self.number)

    def passed(self, numbers):
        for number in numbers:
            self.event(FREE, number, 0, 0)

    def widen(self, t, size):
        """A storage has more bytes than its tensor tells."""
        ref = self.live.get(t.untyped_storage()._cdata)
        if ref is not None and size > self.events[ref.place + 2]:
            self.level += size - self.events[ref.place + 2]
            self.highest = max(self.highest, self.level)
            self.events[ref.place + 2] = size

    def work(self, described, tainted):
        self.event(WORK, self.works.at(described), int(tainted), 0)

    def worked(self, op, x, layer):
        """A recurrent layer ran: (steps, batch, features) and its numbers."""
        shape, numbers = layer
        self.work((op, str(x.dtype).removeprefix("torch."), shape, numbers, (), (), (), (), False, 1, (), False, False), False)

    def parted(self, buffer):
        """A kernel gives a buffer back in parts."""
        self.operators.bounds.parted.add(buffer.untyped_storage()._cdata)
        return buffer

    def reserved(self, x, layer):
        """What cuDNN leaves for backward. How large it is, is told by the work before it; here it has a byte."""
        self.worked("rnn_reserve", x, layer)
        made = x.new_empty(1, dtype=self.torch.uint8)
        ref = self.live.get(made.untyped_storage()._cdata)
        if ref is not None:
            category, path, _, taint = self.owners.values[self.events[ref.place + 3]]
            self.events[ref.place + 3] = self.owners.at((category, path, RESERVE, taint))
        return made

    def among(self, given, known):
        return bool(known) and any(isinstance(t, self.FakeTensor) and t.untyped_storage()._cdata in known for t in given)

    def begin(self, t, func, tainted, routed):
        storage = t.untyped_storage()
        key = storage._cdata
        known = self.live.get(key)
        if known is not None and known() is not None or key in self.sparse.known or not self.counting:
            return
        size = storage.nbytes()
        if size == 0:
            return
        ref = _tracemode.Storage(storage, self.ends)
        ref.number, ref.key, ref.place = self.number, key, len(self.events)
        self.live[key] = ref
        if tainted:
            self.tainted.add(key)
            self.counted_by_data(t)
        if routed or key in self.routed:
            self.routed.add(key)
            self.routed_level += size
            self.routed_highest = max(self.routed_highest, self.routed_level)
        owner = self.owners.at((self.category, self.paths[-1] if self.paths else "", str(func).removesuffix(".default"), key in self.tainted))
        self.event(ALLOC, self.number, size, owner)
        self.number += 1
        self.level += size
        if self.level > self.highest:
            self.highest = self.level
        if len(self.events) > 4 * MOST_EVENTS:
            self.finish("events")

    def ends(self, ref):
        self.event(FREE, ref.number, 0, 0)
        self.level -= self.events[ref.place + 2]
        if self.live.get(ref.key) is ref:
            del self.live[ref.key]
            self.tainted.discard(ref.key)
            if ref.key in self.routed:
                self.routed.discard(ref.key)
                self.routed_level -= self.events[ref.place + 2]
            self.routing.forget(ref.key)
            self.known.ended(ref.key)
            self.operators.bounds.begun.discard(ref.key)
            self.operators.bounds.parted.discard(ref.key)

    def depends(self, out):
        """A result's size depends on data; the largest there can be is taken."""
        self.tainted.add(out.untyped_storage()._cdata)
        self.reasons.setdefault(self.here(), None)
        self.counted_by_data(out)
        ref = self.live.get(out.untyped_storage()._cdata)
        if ref is not None:
            category, path, op, _ = self.owners.values[self.events[ref.place + 3]]
            self.events[ref.place + 3] = self.owners.at((category, path, op, True))

    def counted_by_data(self, out):
        if out.dim() and out.shape[0] > FEW:
            self.counts.add(int(out.shape[0]))

    def here(self):
        return _frames.spelled(_frames.script_line())

    def goes_to_an_expert(self, out):
        """A result has an expert's share of the tokens."""
        self.routed.add(out.untyped_storage()._cdata)
        self.routes.setdefault(_frames.spelled(_frames.script_line()), None)

    def claim(self, t, category):
        if not isinstance(t, self.FakeTensor):
            return
        ref = self.live.get(t.untyped_storage()._cdata)
        if ref is not None:
            _, path, op, taint = self.owners.values[self.events[ref.place + 3]]
            self.events[ref.place + 3] = self.owners.at((category, path, op, taint))

    def claim_gradients(self):
        for optimizer in self.optimizers:
            for group in optimizer.param_groups:
                for p in group["params"]:
                    if p.grad is not None:
                        self.claim(p.grad, "gradients")

    # The end -------------------------------------------------------------------------------------------------------------------

    def ended(self):
        error = getattr(sys, "last_value", None)
        if error is None:
            self.finish("end")
        _frames.strip(error)
        why = f"{type(error).__name__}: {str(error)[:600]}"
        if self.asked is not None:
            why += f" (tensors have no values in a prediction: the value read at {_frames.spelled(self.asked)} was made up)"
        self.finish("failed", why, _frames.script_line_of(error))

    def finish(self, how, why="", place=None):
        """Write the trace, then end the process."""
        if self.done:
            return
        self.done = True
        events = self.events[:]  # first: the script goes on while the watchdog's thread writes, and an event names only what is in the tables already
        place = place or _frames.script_line()
        described = {
            "schema": "plimsoll.trace/1", "torch": self.torch.__version__.partition("+")[0], "ended": how, "why": why, "file": place[0], "line": place[1],
            "steps": self.steps, "seconds": round(time.monotonic() - self.begun, 1), "skipped_batches": self.loops.skipped,
            "owners": [{"category": c, "module": m, "op": o, "depends": d} for c, m, o, d in self.owners.values],
            "moments": [{"step": n, "phase": phase} for n, phase in self.moments.values], "works": [dict(zip(_works.FIELDS, w)) for w in self.works.values],
            "depends_on_data": list(self.reasons), "routed": self.routed_highest, "routed_at": list(self.routes), "notes": [*self.notes, *self.places.several()], "compiled": self.compiled, "cut": self.cut, "params": self.parameters(),
        }
        _files.write_with(os.path.join(self.report, "trace.bin.gz"), lambda f: f.write(gzip.compress(events.tobytes(), 1)))
        _files.write_json(os.path.join(self.report, "trace.json"), described)
        _children.leave(0)

    def parameters(self):
        found = {id(p): p.numel() for m in self.modules for p in m.parameters()}
        return sum(found.values())

    def fail(self, why):
        self.finish("failed", why)
