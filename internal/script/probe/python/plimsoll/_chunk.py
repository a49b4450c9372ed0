"""Calls the model on a few samples at a time and recomputes each part in backward: for scripts that draw their batches themselves.

The script sees one call with the whole batch and one graph; its loss, its counters and its optimizer know nothing of the parts. Before the first such call
the parts are proven: outputs and gradients of a few samples at once are compared with those of the same samples in two parts. A model whose results depend
on which samples are together, or whose loss is neither a mean nor a sum over them, does not pass and is left alone.
"""
import functools

from . import _split
from ._ranks import Ranks

EXACT, ROUNDED = 1e-3, 5e-2  # largest difference of gradients as a share of their norm: in fp32, and where half precision rounds sums


def learn(fit):
    """Note how many samples the model is called with, the first time, and step aside."""
    torch = fit.torch
    call = torch.nn.Module.__call__

    @functools.wraps(call)
    def __call__(module, *args, **kwargs):
        if _trains(torch, module):
            torch.nn.Module.__call__ = call
            sizes = set()
            _split._collect_sizes(torch, (args, kwargs), sizes)
            fit.report["model_batch"] = sizes.pop() if len(sizes) == 1 else 0
        return call(module, *args, **kwargs)

    torch.nn.Module.__call__ = __call__


def install(fit, parts):
    """Wrap every model that the script itself calls in training, when it first does."""
    torch = fit.torch
    call, depth, seen = torch.nn.Module.__call__, [0], set()

    @functools.wraps(call)
    def __call__(module, *args, **kwargs):
        if depth[0] == 0 and id(module) not in seen and _trains(torch, module) and not _in_backward(torch):
            seen.add(id(module))
            Chunked(fit, module, parts, within).wrap()
        return within(call, module, *args, **kwargs)

    def within(run, *args, **kwargs):
        """Run something in which modules are called by others, not by the script."""
        depth[0] += 1
        try:
            return run(*args, **kwargs)
        finally:
            depth[0] -= 1

    torch.nn.Module.__call__ = __call__


def _in_backward(torch):
    """Whether autograd is at work on this thread: what is called then is recomputed for a checkpoint, not called by the script."""
    return torch._C._current_graph_task_id() != -1


def _trains(torch, module):
    return module.training and torch.is_grad_enabled() and any(p.requires_grad for p in module.parameters())


class Chunked:
    """One model, called in parts."""

    def __init__(self, fit, module, parts, within):
        self.fit, self.torch, self.parts, self.within = fit, fit.torch, parts, within
        self.outer = module
        self.inner = module.module if isinstance(module, fit.torch.nn.parallel.DistributedDataParallel) else module
        self.original = self.inner.forward
        self.scalars = None  # how each single number of the output is joined, once proven: "mean" or "sum"

    def wrap(self):
        @functools.wraps(self.original)
        def forward(*args, **kwargs):
            if not _trains(self.torch, self.inner) or self.fit.trainer:
                return self.original(*args, **kwargs)
            return self.call(args, kwargs)

        self.inner.forward = forward

    def call(self, args, kwargs):
        whole = self._samples(args, kwargs)
        self.fit.report["model_batch"] = max(whole, self.fit.report["model_batch"])
        if whole < 2:
            return self.original(*args, **kwargs)
        if self.scalars is None:
            self._may_be_cut()
            self._prove(args, kwargs, whole)
        if "mean" in self.scalars.values():
            self._refuse_ignored(args, kwargs)
        from torch.utils.checkpoint import checkpoint

        outputs, sizes = [], []
        for part in _split.parts(self.torch, (args, kwargs), whole, self.parts):
            a, k = part.batch
            outputs.append(checkpoint(self.within, self.original, *a, use_reentrant=False, **k))
            sizes.append(part.size)
        return self._join(outputs, sizes, self.scalars)

    # What can be cut ---------------------------------------------------------------------------------------------------------

    def refuse(self, why):
        self.fit.refuse(why, part="chunk")

    def _samples(self, args, kwargs):
        sizes = set()
        _split._collect_sizes(self.torch, (args, kwargs), sizes)
        sizes.discard(0)
        if len(sizes) != 1:
            seen = ", ".join(map(str, sorted(sizes))) or "no tensors"
            self.refuse(f"the model's inputs cannot be cut: their first dimensions differ ({seen})")
        return sizes.pop()

    def _may_be_cut(self):
        nn = self.torch.nn
        if hasattr(self.outer, "_orig_mod"):
            self.refuse("the model is compiled; call it in parts without torch.compile")
        if any(isinstance(m, nn.modules.batchnorm._BatchNorm) and m.training for m in self.inner.modules()):
            self.refuse("batch norm normalises over the batch: parts of it would be normalised differently")
        if Ranks(self.torch).several() and self.inner is self.outer:
            self.refuse("several ranks train together without DistributedDataParallel")
        if getattr(getattr(self.inner, "config", None), "use_cache", False):
            self.inner.config.use_cache = False  # a KV cache is of no use in training

    def _refuse_ignored(self, args, kwargs):
        """A mean over targets of which some are ignored counts differently in each part."""
        for tensor in _tensors(self.torch, (args, kwargs)):
            if not tensor.is_floating_point() and tensor.dtype != self.torch.bool and bool((tensor < 0).any()):
                self.refuse("the model returns a mean loss and some targets are negative, which losses ignore")

    # The proof ---------------------------------------------------------------------------------------------------------------

    def _prove(self, args, kwargs, whole):
        torch = self.torch
        count = min(whole, max(2, -(-whole // self.parts)))
        sample = _split.cut(torch, (args, kwargs), 0, count, whole)
        devices = [torch.cuda.current_device()] if torch.cuda.is_initialized() else []
        kept = {name: b.detach().clone() for name, b in self.inner.named_buffers()}
        with torch.random.fork_rng(devices=devices), _without_dropout(torch):
            at_once = self.original(*sample[0], **sample[1])
            first = self._gradients(at_once)  # and what they needed is free before the halves are computed
            halves = list(_split.parts(torch, sample, count, 2))
            outputs = [self.original(*p.batch[0], **p.batch[1]) for p in halves]
            sizes = [p.size for p in halves]
            self.scalars = self._how(at_once, outputs, sizes)
            joined = self._join(outputs, sizes, self.scalars)
            far, far_grad = self._apart(at_once, first, joined)
        with torch.no_grad():
            for name, buffer in self.inner.named_buffers():
                if name in kept and not torch.equal(buffer, kept[name]):
                    buffer.copy_(kept[name])
        rounded = torch.is_autocast_enabled() or any(p.dtype in (torch.float16, torch.bfloat16) for p in self.inner.parameters())
        if max(far, far_grad) > (ROUNDED if rounded else EXACT):
            self.refuse(f"{count} samples at once and in two parts give gradients that differ by {far_grad:.1%}, outputs by {far:.1%}: "
                        "the model mixes its samples, or draws random numbers")
        self.fit.report["proof"] = far_grad
        self.fit.applied(f"the model called in {self.parts} parts, recomputed in backward (gradients of {count} samples compared with the uncut call: {far_grad:.0e} apart)")

    def _how(self, at_once, outputs, sizes):
        """Of each single number among the outputs, whether the parts' are averaged or added."""
        found, total = {}, sum(sizes)
        for path, value in _numbers(self.torch, at_once):
            if not value.is_floating_point():
                self.refuse("the model returns a whole number that parts would change")
            parts = [dict(_numbers(self.torch, o))[path].detach().double() for o in outputs]
            want, scale = value.detach().double(), max(abs(float(value.detach())), 1e-12)
            mean = sum(p * s / total for p, s in zip(parts, sizes))
            apart = {"mean": abs(float(mean - want)) / scale, "sum": abs(float(sum(parts) - want)) / scale}
            found[path] = min(apart, key=apart.get)
        return found

    def _gradients(self, output):
        """The gradients of all parameters, from the same direction whatever the output's values; on the host."""
        torch = self.torch
        generator = torch.Generator().manual_seed(0)
        roots = []
        for x in _tensors(torch, output):
            if x.is_floating_point():
                toward = torch.randn(x.shape, generator=generator).to(x) if x.dim() else torch.ones_like(x)
                roots += [(x, toward)] if x.requires_grad else []
        if not roots:
            return []
        reached = [p for p in self.inner.parameters() if p.requires_grad]
        found = torch.autograd.grad([x for x, _ in roots], reached, [t for _, t in roots], allow_unused=True)
        return [None if g is None else g.detach().cpu() for g in found]

    def _apart(self, at_once, first, joined):
        """How far outputs and gradients are apart, as shares of their norms."""
        a, b = list(_tensors(self.torch, at_once)), list(_tensors(self.torch, joined))
        if len(a) != len(b) or any(x.shape != y.shape for x, y in zip(a, b)):
            self.refuse("the model's outputs cannot be put together from those of its parts")
        far = _distance((x.detach(), y.detach()) for x, y in zip(a, b) if x.is_floating_point())
        second = self._gradients(joined)
        if len(first) != len(second) or any((x is None) != (y is None) for x, y in zip(first, second)):
            return far, 1.0
        return far, _distance((x, y) for x, y in zip(first, second) if x is not None)

    # Putting together --------------------------------------------------------------------------------------------------------

    def _join(self, values, sizes, scalars, path=()):
        first, torch = values[0], self.torch
        if isinstance(first, torch.Tensor):
            if first.dim() == 0:
                weights = [s / sum(sizes) for s in sizes] if scalars.get(path) == "mean" else [1.0] * len(sizes)
                return sum(v * w for v, w in zip(values, weights))
            if any(v.shape[0] * sizes[0] != first.shape[0] * s for v, s in zip(values, sizes)):
                self.refuse("the model's outputs do not follow the batch in their first dimension")
            return torch.cat(values)
        if isinstance(first, _split.Mapping):
            joined = {k: self._join([v[k] for v in values], sizes, scalars, (*path, k)) for k in first}
            return joined if type(first) is dict else type(first)(**joined)
        if isinstance(first, (tuple, list)):
            joined = [self._join(list(column), sizes, scalars, (*path, i)) for i, column in enumerate(zip(*values))]
            return type(first)(*joined) if hasattr(first, "_fields") else type(first)(joined)
        if first is None or isinstance(first, (bool, int, float, str)) and all(v == first for v in values):
            return first
        self.refuse(f"the model returns a {type(first).__name__}, which cannot be put together from parts")


def _tensors(torch, value):
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, _split.Mapping):
        for v in value.values():
            yield from _tensors(torch, v)
    elif isinstance(value, (tuple, list)):
        for v in value:
            yield from _tensors(torch, v)


def _numbers(torch, value, path=()):
    """The tensors that hold one number, by their place in the output."""
    if isinstance(value, torch.Tensor):
        if value.dim() == 0:
            yield path, value
    elif isinstance(value, _split.Mapping):
        for k, v in value.items():
            yield from _numbers(torch, v, (*path, k))
    elif isinstance(value, (tuple, list)):
        for i, v in enumerate(value):
            yield from _numbers(torch, v, (*path, i))


def _distance(pairs):
    """The norm of all differences as a share of the norm of all values."""
    apart = size = 0.0
    for x, y in pairs:
        x, y = x.double(), y.double()
        apart += float((x - y).square().sum())
        size += float(x.square().sum())
    return (apart / size) ** 0.5 if size else float(apart > 0)


def _without_dropout(torch):
    """A mode in which dropout keeps everything: two ways to compute the same must not differ in what they drop."""
    from torch.overrides import TorchFunctionMode

    functional = torch.nn.functional
    names = ("dropout", "dropout1d", "dropout2d", "dropout3d", "alpha_dropout", "feature_alpha_dropout")
    drops = {f for f in [getattr(functional, n, None) for n in names] + [torch.dropout, torch.alpha_dropout, torch.feature_dropout] if f is not None}

    class Keep(TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            kwargs = dict(kwargs or {})
            if func in drops:
                return args[0] if args else kwargs["input"]
            if func is functional.scaled_dot_product_attention:
                if len(args) > 4:
                    args = (*args[:4], 0.0, *args[5:])
                else:
                    kwargs["dropout_p"] = 0.0
            return func(*args, **kwargs)

    return Keep()
