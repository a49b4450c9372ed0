"""Splits every batch into micro-batches while the optimizer sees whole ones.

The DataLoader hands out the parts of a batch one after the other. Each backward is weighted by the part's share of the batch (_weights.py); step, zero_grad, clipping,
schedulers and the gradient scaler act once the whole batch has gone through. A loop that accumulates over A batches calls step
after every A hand-outs; of these calls only the one that ends A whole batches acts, so its meaning is kept without knowing of it.
"""
import functools
import weakref
from collections.abc import Mapping

from ._losses import Unclear
from ._ranks import Ranks
from ._imports import when_imported
from ._weights import Weights

PLAIN_SAMPLERS = ("RandomSampler", "SequentialSampler", "DistributedSampler", "SubsetRandomSampler", "WeightedRandomSampler",
                  "SeedableRandomSampler", "_InfiniteConstantSampler", "BatchSampler", "BatchSamplerShard")


class Splitter:
    def __init__(self, fit, parts):
        self.fit, self.torch, self.parts = fit, fit.torch, parts
        self.part = None  # the part the script holds now; None outside a split loop
        self.since_step, self.acted = 0, False  # whole or begun batches since the optimizer last acted; whether it did on the last one
        self.hand_outs = 0  # parts handed out before the script's first call of step
        self.accumulates = None  # batches the script accumulates over, learnt from that call
        self.pending = False  # gradients of an unfinished batch lie in the parameters
        self.outcome = None  # of the script's call of step on this part: acted, held back, or None
        self.backwards, self.stepping = 0, set()
        self.weights = {}  # by the number of the backward call within a part
        self.uneven = False  # parts may hold unequal numbers of targets
        self.aside = []  # gradients of the batches before this one, while it accumulates
        self.training = True
        self.loss, self.partial = None, None  # of the batches since the last step, and of the parts of this one so far
        self.batches, self.tail = None, None  # of the loader being iterated: its batches, and the samples of its last one
        self.inner = set()  # ids of loaders that others iterate
        self.optimizers = weakref.WeakSet()
        self.ranks = Ranks(fit.torch)

    def install(self):
        torch = self.torch
        when_imported("torch.utils.data.dataloader", self._hook_loaders)
        when_imported("accelerate.data_loader", self._hook_accelerate)
        self._hook_backward()
        self._hook_optimizers()
        self._hook_schedulers()
        self._hook_scaler()
        self._hook_clipping()
        self._hook_modules()
        self.ranks.install()
        averaged = getattr(torch.optim.swa_utils, "AveragedModel", None)
        if averaged is not None:
            self._gate(averaged, "update_parameters", self._follows_step)

    # The decision ------------------------------------------------------------------------------------------------------------

    def whole(self):
        """Whether the optimizer may act now: the part in hand ends as many whole batches as the script accumulates over."""
        if self.part is None or self.fit.trainer:
            return True
        accumulates = self.accumulates or self.hand_outs
        return self.part.last and self.since_step >= accumulates

    def _follows_step(self):
        """Whether something that goes along with step may act: as step did on this part, else when the batch is whole."""
        if self.part is None or self.fit.trainer:
            return True
        return self.outcome if self.outcome is not None else self.part.last

    def stepped(self, optimizer, acted):
        self.outcome = acted
        self.stepping.add(id(optimizer))
        if len(self.stepping) > 1 and self.backwards > 1:
            self.fit.refuse("several optimizers step after several backward passes of one batch; their gradients would mix")
        if acted:
            self.pending, self.acted = False, True
            self.fit.report["steps"] += 1
            self._keep_loss()

    def learn(self):
        if self.accumulates is not None or self.part is None or self.fit.trainer:
            return
        self.accumulates = max(1, self.hand_outs)
        if self.accumulates > 1 and self.batches is not None and self.batches % self.accumulates:
            self.fit.refuse(f"it accumulates over {self.accumulates} batches, which do not divide the {self.batches} batches of an epoch")
        if self.accumulates > 1 and self.tail is not None and self.tail < self.parts:
            self.fit.refuse(f"it accumulates over {self.accumulates} batches, and the last of an epoch has {self.tail} samples for {self.parts} parts")

    # Loaders -----------------------------------------------------------------------------------------------------------------

    def _hook_loaders(self, module):
        loader_class, splitter = module.DataLoader, self
        base_init, base_iter = loader_class.__init__, loader_class.__iter__

        def __iter__(loader):
            inner = base_iter(loader)
            overridden = type(loader).__iter__ is not __iter__
            return inner if overridden or not splitter._splits(loader) else splitter._hand_out(loader, inner)

        def __init__(loader, *args, **kwargs):
            base_init(loader, *args, **kwargs)
            splitter._cover_subclass(type(loader), __iter__)

        loader_class.__init__, loader_class.__iter__ = __init__, __iter__

    def _hook_accelerate(self, module):
        """accelerate's loaders hold a plain one and look one batch ahead of it."""
        for name in ("DataLoaderShard", "DataLoaderDispatcher"):
            if hasattr(module, name):
                self._cover_subclass(getattr(module, name), None)

    def _cover_subclass(self, kind, base_iter):
        """A loader class with an iterator of its own is split behind that iterator."""
        if kind.__iter__ is base_iter or getattr(kind.__iter__, "plimsoll", False):
            return
        original, splitter = kind.__iter__, self

        @functools.wraps(original)
        def __iter__(loader):
            held = getattr(loader, "base_dataloader", None)
            if held is not None:
                splitter.inner.add(id(held))
            inner = original(loader)
            return splitter._hand_out(loader, inner) if splitter._splits(loader) else inner

        __iter__.plimsoll = True
        kind.__iter__ = __iter__

    def _splits(self, loader):
        if self.fit.trainer or not self.training or not self.torch.is_grad_enabled() or id(loader) in self.inner:
            return False
        for sampler in (loader.sampler, loader.batch_sampler):
            if sampler is not None and type(sampler).__name__ not in PLAIN_SAMPLERS:
                self.fit.refuse(f"the sampler {type(sampler).__name__} is the script's own and may depend on how often it is asked")
        return True

    def _hand_out(self, loader, batches):
        self.batches, self.tail = extent(loader)
        if self.tail is not None and self.tail < self.parts and self.ranks.reduces_early():
            self.fit.refuse(f"ranks share gradients with every part, and the last batch of an epoch has {self.tail} samples for {self.parts} parts")
        complete = False
        try:
            for batch in batches:
                whole = samples(self.torch, batch, self.fit)
                self.fit.report["batch"] = max(whole, self.fit.report["batch"])
                self.since_step = 1 if self.acted else self.since_step + 1
                self.acted = False
                for weights in self.weights.values():
                    weights.begin()
                for part in parts(self.torch, batch, whole, self.parts):
                    self._begin(part)
                    yield part.batch
            complete = True
        finally:
            if not complete and self.part is not None:
                self.fit.report["broke_off"] = True
            self.part, self.outcome = None, None
            self.ranks.share(True)

    def _begin(self, part):
        if self.accumulates is None:
            self.hand_outs += 1
        self.part, self.outcome, self.backwards = part, None, 0
        self.ranks.share(part.last)
        self.stepping.clear()
        self.fit.report["micro_batches"] += 1

    # The script's calls ------------------------------------------------------------------------------------------------------

    def _hook_backward(self):
        autograd = self.torch.autograd
        original = autograd.backward

        @functools.wraps(original)
        def backward(tensors, grad_tensors=None, *args, **kwargs):
            if self.part is None or self.fit.trainer:
                return original(tensors, grad_tensors, *args, **kwargs)
            return original(tensors, self._weighted(tensors, grad_tensors), *args, **kwargs)

        autograd.backward = backward

    def _weighted(self, tensors, grad_tensors):
        """The gradient to start backward with: the part's share of the batch where the loss is a mean, one where it is a sum."""
        torch = self.torch
        roots = (tensors,) if isinstance(tensors, torch.Tensor) else tuple(tensors)
        if len(roots) != 1 or roots[0].numel() != 1:
            self.fit.refuse("backward starts from something other than one scalar loss")
        loss = roots[0]
        try:
            weights = self.weights.setdefault(self.backwards, Weights())
            weight, factor = weights.weigh(loss, self.part, self.accumulates)
        except Unclear as why:
            self.fit.refuse(f"parts of a batch cannot be weighted: {why}")
        self.uneven = self.uneven or weights.uneven
        if self.backwards == 0:
            self._set_aside(loss)
        self._rescale(loss, factor)
        if self.fit.plan.get("losses"):
            self._add_loss(loss.detach() * weight)
        self.backwards += 1
        self.pending = True
        self.fit.applied(f"{self.parts} micro-batches per batch, accumulated")
        seed = torch.full_like(loss, weight)
        given = grad_tensors[0] if isinstance(grad_tensors, (tuple, list)) and grad_tensors else grad_tensors
        return seed if given is None or isinstance(given, (tuple, list)) else seed * given

    def _rescale(self, loss, factor):
        """Bring what the parts of this batch have accumulated to the scale that its last part made known."""
        if factor != 1:
            self._may_rescale()
            self.uneven = True
            self.fit.applied("parts weighted by what their losses count")
            for p in self._touched(loss):
                if p.grad is not None:
                    p.grad.mul_(factor)
            if self.partial is not None:
                self.partial = self.partial * factor
        if self.part.last:
            self._put_back()

    def _may_rescale(self):
        if self.since_step > 1 and not self.aside:
            self.fit.refuse("it accumulates over batches, and only some of them hold unequal numbers of targets in their parts")
        if len(self.weights) > 1:
            self.fit.refuse("it calls backward several times for a batch whose parts hold unequal numbers of targets")
        if self.ranks.reduces_early():
            self.fit.refuse("gradients are shared among ranks with every part, and parts hold unequal numbers of targets")

    def _set_aside(self, loss):
        """Keep the gradients of the batches before on the host while this one's may have to be brought to another scale."""
        if not (self.uneven and self.part.first and self.since_step > 1):
            return
        for p in self._touched(loss):
            if p.grad is not None:
                self.aside.append((p, p.grad.cpu()))
                p.grad = None

    def _put_back(self):
        for p, gradient in self.aside:
            gradient = gradient.to(p.device)
            p.grad = gradient if p.grad is None else p.grad.add_(gradient)
        self.aside.clear()

    def _touched(self, loss):
        """Every parameter that backward from this loss, or an optimizer, reaches."""
        found, seen, queue = {}, set(), [loss.grad_fn]
        while queue:
            node = queue.pop()
            if node is None or node in seen:
                continue
            seen.add(node)
            if hasattr(node, "variable"):
                found[id(node.variable)] = node.variable
            queue.extend(parent for parent, _ in node.next_functions)
        for optimizer in self.optimizers:
            found.update((id(p), p) for group in optimizer.param_groups for p in group["params"])
        return found.values()

    def _add_loss(self, value):
        self.partial = value if self.partial is None else self.partial + value
        if self.part.last:
            self.loss = self.partial if self.loss is None else self.loss + self.partial
            self.partial = None

    def _keep_loss(self):
        if self.loss is not None and len(self.fit.report["losses"]) < 4096:
            self.fit.report["losses"].append(float(self.loss))
        self.loss = None

    def _hook_optimizers(self):
        optimizer_class, splitter = self.torch.optim.Optimizer, self
        base_init, zero = optimizer_class.__init__, optimizer_class.zero_grad

        def __init__(optimizer, *args, **kwargs):
            base_init(optimizer, *args, **kwargs)
            splitter.optimizers.add(optimizer)
            splitter._gate_step(type(optimizer))

        @functools.wraps(zero)
        def zero_grad(optimizer, *args, **kwargs):
            if not splitter.pending or splitter.fit.trainer:
                zero(optimizer, *args, **kwargs)

        optimizer_class.__init__, optimizer_class.zero_grad = __init__, zero_grad

    def _gate_step(self, kind):
        if getattr(kind.step, "plimsoll", False):
            return
        original, splitter = kind.step, self

        @functools.wraps(original)
        def step(optimizer, closure=None, *args, **kwargs):
            if splitter.part is not None and closure is not None:
                splitter.fit.refuse(f"{kind.__name__}.step takes a closure that runs the model itself")
            splitter.learn()
            acts = splitter.whole()
            result = None
            if acts:
                result = original(optimizer, *args, **kwargs) if closure is None else original(optimizer, closure, *args, **kwargs)
            if splitter.part is not None:
                splitter.stepped(optimizer, acts)
            return result

        step.plimsoll = True
        kind.step = step

    def _hook_schedulers(self):
        schedulers = self.torch.optim.lr_scheduler
        for name in ("LRScheduler", "ReduceLROnPlateau", "ChainedScheduler", "SequentialLR", "CosineAnnealingWarmRestarts", "OneCycleLR"):
            kind = getattr(schedulers, name, None)
            if kind is not None and "step" in vars(kind):
                self._gate(kind, "step", self._follows_step)

    def _hook_scaler(self):
        torch, splitter = self.torch, self
        kinds = {torch.cuda.amp.GradScaler, getattr(getattr(torch, "amp", None), "GradScaler", torch.cuda.amp.GradScaler)}
        for kind in kinds:
            if "update" in vars(kind):
                self._gate(kind, "update", self._follows_step)
            if "unscale_" in vars(kind):
                self._gate(kind, "unscale_", self.whole)
            if "step" not in vars(kind):
                continue
            original = kind.step

            @functools.wraps(original)
            def step(scaler, optimizer, *args, _original=original, **kwargs):
                splitter.learn()
                acts = splitter.whole()
                result = _original(scaler, optimizer, *args, **kwargs) if acts else None
                if splitter.part is not None and (not acts or not splitter.outcome):
                    splitter.stepped(optimizer, acts)  # the scaler may have skipped the optimizer: the batch is over all the same
                return result

            kind.step = step

    def _hook_clipping(self):
        utils = self.torch.nn.utils
        for name in ("clip_grad_norm_", "clip_grad_value_", "clip_grad_norm"):
            original = getattr(utils, name, None)
            if original is None:
                continue

            @functools.wraps(original)
            def clip(*args, _original=original, **kwargs):
                return _original(*args, **kwargs) if self.whole() else self.torch.zeros(())

            setattr(utils, name, clip)
            if hasattr(utils, "clip_grad"):
                setattr(utils.clip_grad, name, clip)

    def _hook_modules(self):
        nn, splitter = self.torch.nn, self
        train, zero = nn.Module.train, nn.Module.zero_grad

        @functools.wraps(train)
        def set_training(module, mode=True):
            splitter.training = bool(mode)
            return train(module, mode)

        @functools.wraps(zero)
        def zero_grad(module, *args, **kwargs):
            if not splitter.pending or splitter.fit.trainer:
                zero(module, *args, **kwargs)

        nn.Module.train, nn.Module.zero_grad = set_training, zero_grad
        for kind in (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d, nn.SyncBatchNorm):
            self._watch_batch_norm(kind)

    def _watch_batch_norm(self, kind):
        original = kind._check_input_dim

        @functools.wraps(original)
        def check(module, value):
            if module.training and self.part is not None:
                self.fit.refuse(f"{kind.__name__} normalises over the batch: parts of it would be normalised differently")
            original(module, value)

        kind._check_input_dim = check

    def _gate(self, kind, name, allowed):
        """Let a method of a class act only when allowed."""
        original = getattr(kind, name)

        @functools.wraps(original)
        def method(*args, **kwargs):
            return original(*args, **kwargs) if allowed() else None

        setattr(kind, name, method)


class Part:
    """One micro-batch: its data, its size, its batch's size, and whether it is the first or the last."""

    __slots__ = ("batch", "size", "whole", "first", "last")

    def __init__(self, batch, size, whole, first, last):
        self.batch, self.size, self.whole, self.first, self.last = batch, size, whole, first, last


def extent(loader):
    """The batches of a loader and the samples of its last one; None where they are not known."""
    try:
        batches, rows, size = len(loader), len(loader.sampler), loader.batch_size
    except (TypeError, AttributeError):
        return None, None
    if not size or loader.drop_last or not rows % size:
        return batches, None
    return batches, rows % size


def parts(torch, batch, whole, count):
    """The batch in at most `count` parts as equal as can be, none empty."""
    count = min(count, whole)
    bounds = [whole * i // count for i in range(count + 1)]
    for i in range(count):
        lo, hi = bounds[i], bounds[i + 1]
        yield Part(cut(torch, batch, lo, hi, whole), hi - lo, whole, i == 0, i == count - 1)


def samples(torch, batch, fit):
    """How many samples the batch holds: the length all its tensors share."""
    sizes = set()
    _collect_sizes(torch, batch, sizes)
    if len(sizes) != 1 or not min(sizes, default=0):
        seen = ", ".join(str(s) for s in sorted(sizes, key=str)) or "no tensors"
        fit.refuse(f"a batch cannot be cut: its tensors do not share their first dimension ({seen})")
    return sizes.pop()


def _collect_sizes(torch, value, sizes):
    if isinstance(value, torch.Tensor):
        sizes.add(value.shape[0] if value.dim() else 0)
    elif isinstance(value, Mapping):
        for v in value.values():
            _collect_sizes(torch, v, sizes)
    elif isinstance(value, (tuple, list)):
        for v in value:
            _collect_sizes(torch, v, sizes)


def cut(torch, value, lo, hi, whole):
    """The samples lo to hi of a batch of any nesting; what is not a sequence of samples stays as it is."""
    if isinstance(value, torch.Tensor):
        return value[lo:hi]
    if isinstance(value, Mapping):
        pieces = {k: cut(torch, v, lo, hi, whole) for k, v in value.items()}
        return pieces if type(value) is dict else type(value)(pieces)
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(cut(torch, v, lo, hi, whole) for v in value))
    if isinstance(value, (tuple, list)):
        if len(value) == whole and not any(isinstance(v, (torch.Tensor, Mapping, tuple, list)) for v in value):
            return value[lo:hi]
        return type(value)(cut(torch, v, lo, hi, whole) for v in value)
    return value
