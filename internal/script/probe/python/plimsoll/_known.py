"""Remembers the whole numbers and booleans of small tensors that a script puts on its GPU: sizes, lengths, masks, labels.

They are few bytes and decide much: libraries exchange the sizes of tensors as tensors and read them again (accelerate's pad_across_processes), and leave a mask out that is true
throughout (transformers). What is computed from such tensors alone is computed here as well; what is written into is forgotten.
"""
VALUE = "_plimsoll_value"
MOST = 1 << 16  # numbers of a tensor


class Known:
    def __init__(self, torch, trace):
        self.torch, self.trace = torch, trace
        self.changed = set()  # storages that were written into
        self.whole = {}  # by storage: a tensor of the host's that lies on the GPU as it is, since before the first batch
        Tensor = torch.Tensor
        self.makers = {torch.tensor, torch.as_tensor, torch.arange, torch.ones, torch.zeros}
        self.constant = {torch.ones_like: torch.ones, torch.zeros_like: torch.zeros, Tensor.new_ones: torch.ones, Tensor.new_zeros: torch.zeros}
        self.writers = {Tensor.__setitem__, Tensor.data.__set__}

    def of(self, tensor):
        """A tensor's numbers, as a tensor on the host; None where they are not known."""
        value = tensor.__dict__.get(VALUE)
        return None if value is None or tensor.untyped_storage()._cdata in self.changed else value

    def small(self, value):
        return isinstance(value, self.torch.Tensor) and not isinstance(value, self.trace.FakeTensor) and value.layout is self.torch.strided and value.numel() <= MOST and not value.dtype.is_floating_point and not value.dtype.is_complex

    def keep(self, tensor, value):
        if isinstance(tensor, self.trace.FakeTensor) and tensor.untyped_storage()._cdata not in self.changed:
            setattr(tensor, VALUE, value)

    def arrives(self, source, made, change):
        """A tensor of the host's was put on the GPU, or changed on the way."""
        self.stays(source, made)
        value = self.of(source) if isinstance(source, self.trace.FakeTensor) else source if self.small(source) else None
        if value is not None:
            value = self.computed(lambda t: change(t.detach().clone()), (value,), {})
            if self.small(value):
                self.keep(made, value)

    def stays(self, source, made):
        """What was put on the GPU before anything ran there, a graph or its masks, is the same in every step: how many of its places are not zero can be counted."""
        if self.trace.phase == "load" and not isinstance(source, (self.trace.FakeTensor, self.torch.nn.Parameter)) and not source.requires_grad and made.dtype == source.dtype and made.numel() == source.numel():
            self.whole[made.untyped_storage()._cdata] = source

    def count(self, mask):
        """How many places of a tensor are not zero; None where that is not known."""
        value = self.whole.get(mask.untyped_storage()._cdata)
        if value is None or value.numel() != mask.numel():
            return None
        return self.computed(lambda t: max(self.torch.count_nonzero(t).item(), 1), (value,), {})

    def ended(self, key):
        """A storage has ended."""
        self.whole.pop(key, None)
        self.changed.discard(key)

    def made(self, function, args, kwargs, out):
        """A tensor was made on the GPU, of numbers alone."""
        if function in self.makers and isinstance(out, self.trace.FakeTensor) and out.numel() <= MOST and not out.dtype.is_floating_point:
            value = self.computed(function, args, kwargs)
            if self.small(value):
                self.keep(out, value)

    def follow(self, function, args, kwargs, given, out):
        """A function ran on these tensors without data."""
        name = getattr(function, "__name__", "")
        if function in self.writers or name.startswith("__i") and name not in ("__index__", "__invert__", "__iter__") or name.endswith("_") and not name.endswith("__") or kwargs.get("out") is not None:
            for t in given:
                self.forget(t)
            return
        if function in self.constant:
            if isinstance(out, self.trace.FakeTensor) and out.numel() <= MOST and not out.dtype.is_floating_point and not out.dtype.is_complex:
                self.keep(out, self.computed(self.constant[function], (tuple(out.shape),), {"dtype": out.dtype}))
            return
        values = {id(t): self.of(t) for t in given}
        if not values or any(v is None for v in values.values()):
            return
        real = lambda v: values.get(id(v), v) if isinstance(v, self.torch.Tensor) else type(v)(map(real, v)) if type(v) in (list, tuple) else v
        found = self.computed(function, real(tuple(args)), {k: real(v) for k, v in kwargs.items()})
        pairs = list(zip(self.trace.tensors(out), self.trace.tensors(found)))
        for t, value in pairs:
            if self.small(value) and value.shape == t.shape:
                self.keep(t, value)

    def forget(self, tensor):
        self.whole.pop(tensor.untyped_storage()._cdata, None)
        if VALUE in tensor.__dict__:
            self.changed.add(tensor.untyped_storage()._cdata)

    def computed(self, function, args, kwargs):
        from torch.utils._python_dispatch import _disable_current_modes

        try:
            with _disable_current_modes(), self.torch._C.DisableTorchFunction(), self.torch.no_grad():
                return function(*args, **kwargs)
        except Exception:  # what it would need is not there: nothing is known of its result
            return None


def values_can_be_asked_for(module):
    """Of transformers.utils.import_utils: it asks nothing of the values of tensors without data, and so never leaves out a mask that is true throughout; here it gets an answer."""
    if hasattr(module, "is_fake_tensor"):
        module.is_fake_tensor = lambda x: False
