"""Turns the calls of one captured training step into an exported graph and a job description."""
import collections
import contextlib
import dataclasses
import gzip
import os
import sys
import types
from collections.abc import Mapping

DTYPES = {"float32": "fp32", "bfloat16": "bf16", "float16": "fp16", "float64": "fp64"}
NAMED_MOST = 4096  # entries of a container that are looked into
ARRIVED = "_plimsoll_arrived"  # on tensors that the script moved to the GPU

# Tensors of state for each parameter (torch/optim, 2.11); two where the optimizer is not PyTorch's.
STATES = {"sgd": 0, "sgdm": 1, "rmsprop": 1, "adagrad": 1, "lion": 1, "muon": 1}


class Call:
    """One call the script made: what was called, with what, and what came out."""

    __slots__ = ("call", "args", "kwargs", "out")

    def __init__(self, call, args, kwargs, out):
        self.call, self.args, self.kwargs, self.out = call, args, kwargs, out


def tensors(torch, value):
    """The tensors in a value of any nesting, in order."""
    found = []
    mapped(torch, value, lambda t: found.append(t) or t)
    return found


def mapped(torch, value, change):
    """The value with every tensor changed; objects it does not know stay as they are."""
    if isinstance(value, torch.Tensor):
        return change(value)
    if isinstance(value, Mapping):
        pieces = {k: mapped(torch, v, change) for k, v in value.items()}
        if type(value) is dict:
            return pieces
        try:
            return type(value)(**pieces) if dataclasses.is_dataclass(value) else type(value)(pieces)
        except TypeError:
            return pieces
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(mapped(torch, v, change) for v in value))
    if isinstance(value, (tuple, list)):
        return type(value)([mapped(torch, v, change) for v in value])
    return value


def export(capture, optimizer):
    """The job and its graph (gzipped JSON of torch.export's schema)."""
    torch = capture.torch
    calls = _leading_to(torch, capture, capture.nodes)
    models = [c.call for c in calls if isinstance(c.call, torch.nn.Module)]
    if not models:
        raise ValueError("no call of a model leads to the loss")
    unpadded = _drop_full_masks(torch, capture, calls)
    leaves, loose = _leaves(torch, calls, models)
    batch = _batch(capture, leaves)
    leaves_now = [_real(torch, capture, t) for t in leaves]
    if batch == 1:  # torch.export takes a dimension of one for a constant; a graph for two serves any batch
        leaves_now = [torch.cat([t, t]) if t.dim() and t.shape[0] == 1 else t for t in leaves_now]
    reached = {id(t) for c in calls for t in tensors(torch, c.out)}
    step = capture.step = _step_module(capture, calls, models, loose, leaves, [capture.loss, *(t for t in capture.held if id(t) in reached)])
    step.add_regions(capture.functions_checkpointed)
    program = _export(torch, step, leaves_now, max(batch, 2), unpadded)
    job = _job(capture, optimizer, models, step, batch)
    _note_others(capture, optimizer, step, leaves, [t for c in calls for t in tensors(torch, c.out)], job)
    return job, gzip.compress(_serialized(program), 6)


def _leading_to(torch, capture, calls):
    """The calls whose results reach the loss, in order; before the models, what was made on the GPU of a batch that had arrived there."""
    needed, kept = {id(capture.loss)}, []
    for call in [*reversed(calls), *reversed(capture.steps_before)]:
        if any(id(t) in needed and ARRIVED not in t.__dict__ for t in tensors(torch, call.out)):
            kept.append(call)
            needed.update(id(t) for t in tensors(torch, (call.args, call.kwargs)))
    return kept[::-1]


def _leaves(torch, calls, models):
    """The tensors that come from outside: batch, targets, constants; and the parameters that belong to no model."""
    known = {id(p) for m in models for p in m.parameters()} | {id(b) for m in models for b in m.buffers()}
    leaves = []
    for call in calls:
        for t in tensors(torch, (call.args, call.kwargs)):
            if id(t) not in known:
                known.add(id(t))
                leaves.append(t)
        known.update(id(t) for t in tensors(torch, call.out))
    loose = [t for t in leaves if isinstance(t, torch.nn.Parameter)]
    return [t for t in leaves if not isinstance(t, torch.nn.Parameter)], loose


def _batch(capture, leaves):
    """The batch size: the loader's where the inputs agree with it, else the first dimension of the first input."""
    sizes = [t.shape[0] for t in leaves if t.dim()]
    for size in capture.batch_sizes:
        if size is not None and size in sizes:
            return size
    return sizes[0] if sizes else 1


def _real(torch, capture, t):
    if isinstance(t, capture.FakeTensor):
        return torch.zeros(t.shape, dtype=t.dtype)
    return t.detach() if t.is_contiguous() else t.detach().clone()  # what arrives on a GPU has no gaps


def held_by_script(torch, calls, loss):
    """Results that live through backward because the script still refers to them: `out = model(x)` holds its logits, `model(x).loss` does not.

    An object is held when it has more references than this capture's own (one from its call, and one from every later call it was given to) and a name of the
    script's leads to it: PyTorch's own code may refer to it too.
    """
    given = {}
    for call in calls:
        for value in (*call.args, *call.kwargs.values()):
            for t in value if isinstance(value, (tuple, list)) else (value,):
                given[id(t)] = given.get(id(t), 0) + 1
    held = {}
    for call in calls:
        if _references(call) > given.get(id(call.out), 0):
            held.update((id(t), t) for t in tensors(torch, call.out))
        elif isinstance(call.out, (tuple, list)):
            held.update((id(call.out[i]), call.out[i]) for i in range(len(call.out))
                        if isinstance(call.out[i], torch.Tensor) and sys.getrefcount(call.out[i]) - 2 > given.get(id(call.out[i]), 0))
    held.pop(id(loss), None)
    named = _named(torch) if held else set()
    return [t for key, t in held.items() if key in named]


def _named(torch):
    """Ids of the tensors that the names of running functions lead to: themselves, in containers, or as attributes."""
    found, frame, own = set(), sys._getframe(1), (os.path.dirname(os.path.abspath(__file__)), os.path.dirname(torch.__file__))

    def note(value, depth):
        if isinstance(value, torch.Tensor):
            found.add(id(value))
        elif depth and isinstance(value, dict):
            for v in list(value.values()):
                note(v, depth - 1)
        elif depth and isinstance(value, (list, tuple, set, collections.deque)):
            for v in list(value)[:NAMED_MOST]:
                note(v, depth - 1)
        elif depth and hasattr(value, "__dict__") and not isinstance(value, (type, types.ModuleType, torch.nn.Module)):
            note(vars(value), depth)

    while frame is not None:
        if not frame.f_code.co_filename.startswith(own):
            for value in list(frame.f_locals.values()):
                note(value, 2)
        frame = frame.f_back
    return found


def _references(call):
    """References to a call's result beside the call's own and the one of asking."""
    return sys.getrefcount(call.out) - 2


def _step_module(capture, calls, models, loose, leaves, results):
    """A module that makes the same calls: batch in; loss, and what the script holds beside it, out."""
    torch = capture.torch

    class Region(torch.nn.Module):
        """The call of a checkpointed function: as a module's, it has a name in the graph."""

        def forward(self, call):
            return call()

    class Step(torch.nn.Module):
        def __init__(self):
            super().__init__()
            if len({id(m) for m in models}) == 1:
                self.model = models[0]
            else:
                self.models = torch.nn.ModuleList(dict.fromkeys(models))
            self.loose = torch.nn.ParameterList(loose)
            self.names = {id(p): name for name, p in self.named_parameters()}

        def add_regions(self, count):
            self.regions = torch.nn.ModuleList(Region() for _ in range(count))

        def region(self, function, args, kwargs):
            if capture.called_module(function) is not None:
                return function(*args, **kwargs)
            self.entered += 1
            return self.regions[self.entered - 1](lambda: function(*args, **kwargs))

        def forward(self, *inputs):
            self.entered = 0
            values = {id(leaf): given for leaf, given in zip(leaves, inputs)}
            current = dict(self.named_parameters())
            values.update((key, current[name]) for key, name in self.names.items() if name in current)
            now = lambda t: values.get(id(t), t)
            for call in calls:
                out = call.call(*mapped(torch, call.args, now), **mapped(torch, call.kwargs, now))
                values.update(zip((id(t) for t in tensors(torch, call.out)), tensors(torch, out)))
            return tuple(values[id(t)] for t in results)

    return Step()


def _drop_full_masks(torch, capture, calls):
    """Take attention masks of ones alone out of calls of transformers' models, and tell whether none is left.

    Running, these models look into the mask and do without one that hides nothing; being traced, they cannot look (masking_utils.py, 5.17).
    """
    for call in calls:
        if not isinstance(call.call, torch.nn.Module):
            continue
        if call.kwargs.get("position_ids") is not None:
            return False  # sequences may be packed; only their positions would tell
        mask = call.kwargs.get("attention_mask")
        if mask is None:
            continue
        if isinstance(mask, capture.FakeTensor) or mask.dim() != 2 or not bool((mask == 1).all()):
            return False
        call.kwargs = {k: v for k, v in call.kwargs.items() if k != "attention_mask"}
    return True


def _export(torch, step, leaves, batch, unpadded):
    """The step as torch.export sees it: with the batch as a symbol where the model allows that, and with masks as they are when it runs."""
    dim = getattr(torch.export.Dim, "AUTO", None)
    shapes = (tuple({0: dim} if t.dim() and t.shape[0] == batch else None for t in leaves),) if dim is not None else None
    problem = None
    with _no_autocast(torch), torch.enable_grad():
        for untraced, symbolic in ((unpadded, shapes), (False, shapes), (False, None)):
            with _masks_as_running() if untraced else contextlib.nullcontext():
                try:
                    return torch.export.export(step, tuple(leaves), dynamic_shapes=symbolic, strict=False)
                except Exception as failure:
                    problem = problem or failure
    raise problem


@contextlib.contextmanager
def _masks_as_running():
    """transformers decides about attention masks as if it were not being traced."""
    module = sys.modules.get("transformers.masking_utils")
    original = getattr(module, "is_tracing", None)
    if original is None:
        yield
        return
    packed = module.find_packed_sequence_indices
    module.is_tracing, module.find_packed_sequence_indices = lambda *args: False, lambda *args: None
    try:
        yield
    finally:
        module.is_tracing, module.find_packed_sequence_indices = original, packed


@contextlib.contextmanager
def _no_autocast(torch):
    """The graph is exported in the parameters' precision; the job says that autocast was on."""
    kind = torch.autocast
    enter, leave = kind.__enter__, kind.__exit__
    kind.__enter__, kind.__exit__ = lambda context: context, lambda context, *failure: False
    try:
        yield
    finally:
        kind.__enter__, kind.__exit__ = enter, leave


def _serialized(program):
    """torch.export's JSON without the weights."""
    from torch._export.serde import serialize as serde

    artifact = serde.serialize_torch_artifact
    serde.serialize_torch_artifact = lambda *args, **kwargs: b""
    try:
        made = serde.serialize(program)
    finally:
        serde.serialize_torch_artifact = artifact
    return made.exported_program if hasattr(made, "exported_program") else made[0]


def _job(capture, optimizer, models, step, batch):
    parameters = [p for m in models for p in m.parameters()]
    name = type(getattr(models[0], "module", models[0])).__name__
    job = {
        "id": name, "model": name, "source": "graph", "graph": "graph.json.gz", "batch": batch, "param_dtype": _dtype(parameters),
        "optimizer": optimizer_name(optimizer), "accumulate": capture.backwards, "loop": capture.loop_kind(),
    }
    if capture.zeroed_late:
        job["zero_grad"] = "before-backward"
    if capture.autocast not in (None, capture.torch.float32):
        job["autocast"] = DTYPES.get(str(capture.autocast).removeprefix("torch."), "bf16")
    frozen = [n for n, p in step.named_parameters() if not p.requires_grad]
    if frozen:
        job["freeze"] = frozen
    if any(p.dim() == 4 and p.is_contiguous(memory_format=capture.torch.channels_last) and not p.is_contiguous() for p in parameters):
        job["channels_last"] = True
    if len(capture.taken) > 1:
        job["optimizers"] = len(capture.taken)
    if capture.compiled:
        job["compiled"] = True
    if capture.torch.backends.cudnn.benchmark:
        job["cudnn_benchmark"] = True
    notes = [*capture.notes, *capture.places.several()]
    if notes:
        job["notes"] = notes
    _note_checkpoints(capture, step, job)
    return job


def _note_others(capture, optimizer, step, leaves, made, job):
    """What else the script has on the card, of its own or by models that only ever ran without gradients: it stays through the step."""
    own = lambda t: 2 * t.numel() * t.element_size() >= t.untyped_storage().nbytes()  # else it is a part of data that stays
    known = {storage(t) for t in (*step.parameters(), *step.buffers()) if not isinstance(t, capture.FakeTensor)}
    known |= {storage(t) for t in (*leaves, *made) if not isinstance(t, capture.FakeTensor) and own(t)}
    known |= {storage(p.grad) for p in step.parameters() if p.grad is not None}
    known |= {storage(t) for o, _, _ in capture.taken for t in tensors(capture.torch, list(o.state.values()))}
    others = [t for m in capture.others.values() for t in (*m.parameters(), *m.buffers())]
    resident = {**capture.forget(), **{storage(t): t.untyped_storage().nbytes() for t in others}}
    total = sum(size for key, size in resident.items() if key not in known) + _of_others(capture, optimizer, step)
    if total:
        job["resident_bytes"] = total


def _of_others(capture, optimizer, step):
    """Gradients and state of the parameters that other optimizers train in the same iteration and this step does not touch."""
    known, total = {id(p) for p in step.parameters()}, 0
    for other in (o for o, _, _ in capture.taken if o is not optimizer):
        kept = 1 + STATES.get(optimizer_name(other).partition("-")[0], 2)
        total += sum(kept * p.numel() * p.element_size() for g in other.param_groups for p in g["params"] if id(p) not in known)
    return total


def storage(tensor):
    return tensor.untyped_storage().data_ptr()


def _note_checkpoints(capture, step, job):
    if not capture.regions and not capture.functions_checkpointed:
        return
    names = {id(m): n for n, m in step.named_modules()}
    job["checkpointing"] = True
    modules = dict.fromkeys(names[id(m)] for m in capture.regions if id(m) in names)
    job["checkpoint_modules"] = [*modules, *(names[id(m)] for m in step.regions)]


def _dtype(parameters):
    sizes = {}
    for p in parameters:
        kind = str(p.dtype).removeprefix("torch.")
        sizes[kind] = sizes.get(kind, 0) + p.numel()
    return DTYPES.get(max(sizes, key=sizes.get, default="float32"), "fp32")


def optimizer_name(optimizer):
    """The job's spelling: adamw, adamw-fused, adamw-loop (foreach=False), sgd, sgdm, …"""
    group = optimizer.param_groups[0]
    name = type(optimizer).__name__.lower()
    if name == "sgd" and group.get("momentum"):
        name = "sgdm"
    if group.get("fused"):
        return name + "-fused"
    if group.get("foreach") is False:
        return name + "-loop"
    return name
