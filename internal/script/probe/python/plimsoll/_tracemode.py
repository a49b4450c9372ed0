"""Stands before every call of PyTorch that a traced script makes, and before every operator those calls come down to.

Everything the script has on its GPU is a tensor without data. The first mode sees the script's calls: it makes such tensors where the script moves or makes
something on a GPU, and answers questions about values that do not exist. The second sees each operator, backward's and the optimizer's too: it tells the trace of
every storage that begins, and gives results whose size depends on data the largest size they can have.
"""
import contextlib
import sys
import threading
import weakref

from . import _mode
from ._places import MARK, PINNED


DEPENDS = "_plimsoll_depends"  # on a tensor on the host whose size depends on data


def depends_on_data(tensor):
    return DEPENDS in tensor.__dict__


def enter(torch, trace):
    """Switch the first mode on for the rest of the process."""
    from torch.overrides import TorchFunctionMode, _get_current_function_mode_stack

    answers = _Answers(torch, trace)

    class Pretending(TorchFunctionMode):
        def __torch_function__(self, function, kinds, args=(), kwargs=None):
            return answers.call(function, args, kwargs or {})

    Pretending().__enter__()
    trace.pretending = lambda: contextlib.nullcontext() if any(isinstance(m, Pretending) for m in _get_current_function_mode_stack()) else Pretending()
    _mode.format_as_numbers(torch, trace.FakeTensor)
    torch.Tensor.record_stream = lambda tensor, stream: None
    bootstrap = threading.Thread._bootstrap_inner

    def _bootstrap_inner(thread):
        Pretending().__enter__()  # modes are a thread's own
        bootstrap(thread)

    threading.Thread._bootstrap_inner = _bootstrap_inner


class _Answers(_mode._Answers):
    """What to do instead of a call, by the function that is called."""

    def __init__(self, torch, trace):
        super().__init__(torch, trace)
        self.trace, self.Fake = trace, trace.FakeTensor
        self.special[torch.Tensor.__deepcopy__] = self.deepcopy
        self.movers[torch._C._VariableFunctions._pad_packed_sequence] = self.padded
        self.movers.update(trace.sparse.functions(self.plain))
        self.cpu_device = torch.device("cpu")
        self.host = operators_on_host(torch, trace)

    def number(self, tensor):
        known = self.trace.known.of(tensor)
        return super().number(tensor) if known is None else known.tolist()

    def call(self, function, args, kwargs):
        if function in self.of_lists:
            args = self.read(args)
        special = self.special.get(function)
        if special is not None and args and (function is self.torch.Tensor.__deepcopy__ or not self.places.tells_truth_to(sys._getframe(2))):
            return special(function, args, kwargs)
        mover = self.movers.get(function)
        if mover is not None:
            return mover(function, args, kwargs)
        value = self.values.get(function)
        if value is not None and args and isinstance(args[0], self.Fake):
            known = self.trace.known.of(args[0])
            if known is not None:
                return self.trace.known.computed(function, (known,), kwargs)
            self.trace.saw_question()
            return value(args[0])
        return self.plain(function, args, kwargs)

    def meant(self, device, frame):
        """The device that an argument means. PyTorch's own code is told that GPU tensors are on the CPU: when it names the CPU it means where they are."""
        device = self.places.named(device)
        return None if device is not None and device.type == "cpu" and self.places.tells_truth_to(frame) else device

    def on_cpu(self, tensor):
        """Whether a tensor without data is believed to have left the GPU."""
        mark = tensor.__dict__.get(MARK)
        return mark is not None and mark.type == "cpu"

    def without_data(self, tensor):
        """Whether a tensor has no data: itself, or what torch.func wrapped it around."""
        wrapped = self.torch._C._functorch
        while not isinstance(tensor, self.Fake) and wrapped.is_functorch_wrapped_tensor(tensor):
            tensor = wrapped.get_unwrapped(tensor)
        return isinstance(tensor, self.Fake)

    def plain(self, function, args, kwargs):
        if getattr(function, "__name__", "") == "__get__":
            return self.followed(function(*args), [a for a in args if isinstance(a, self.Fake)])
        device = None
        if kwargs.get("device") is not None:
            device = self.meant(kwargs["device"], sys._getframe(3))
            kwargs = {**kwargs, "device": self.places.cpu_for(kwargs["device"])}
        elif function in self.factories:
            device = self.places.default()
        pinned = kwargs.get("pin_memory")
        if "pin_memory" in kwargs:
            kwargs = {k: v for k, v in kwargs.items() if k != "pin_memory"}
        unreal = list(filter(self.without_data, self.trace.tensors((args, kwargs))))
        to_gpu = device is not None and device.type == "cuda"
        if not unreal and not to_gpu:
            out = function(*args, **kwargs)
            if pinned:
                setattr(out, PINNED, True)
            return out
        if not to_gpu and (device is not None or all(map(self.on_cpu, unreal))):
            return self.on_host(function, args, kwargs, unreal)
        with self.trace.recording():
            out = function(*args, **kwargs)
        if unreal:
            self.trace.known.follow(function, args, kwargs, unreal, out)
        else:
            self.trace.known.made(function, args, kwargs, out)
        if self.holds(function, unreal, sys._getframe(3)):
            for t in self.trace.tensors(out):
                setattr(t, "_plimsoll_true", True)
        return out

    def on_host(self, function, args, kwargs, given):
        """A call whose tensors without data have all left the GPU. Whether a size depends on data is kept with the tensor: it may go back."""
        depends = any(map(depends_on_data, given))
        with self.trace.turn, self.trace.fake, self.host:
            self.host.bounds.bounded = False
            out = function(*args, **kwargs)
            depends = depends or self.host.bounds.bounded
        for t in self.trace.tensors(out):
            setattr(t, MARK, self.cpu_device)
            if depends:
                setattr(t, DEPENDS, True)
        self.trace.known.follow(function, args, kwargs, given, out)
        return out

    def followed(self, out, given):
        if given and isinstance(out, self.Fake) and self.on_cpu(given[0]):
            setattr(out, MARK, self.cpu_device)
        return out

    # What moves a tensor -------------------------------------------------------------------------------------------------------

    def moved(self, source, out, device):
        if device is None or device == self.places.of(source, None) or device.type == "cpu" and self.places.on_gpu(source) is None:
            return out
        if device.type == "cuda":
            return self.trace.to_gpu(out)
        return self.trace.to_cpu(out)

    def to(self, function, args, kwargs):
        source, rest, device = args[0], list(args[1:]), None
        for i, value in enumerate(rest):
            if i == 0 and isinstance(value, self.torch.Tensor):
                device = self.places.of(value, self.cpu_device)
                rest[i] = value.dtype
            elif i == 0 or not isinstance(value, (int, float)):
                device = self.meant(value, sys._getframe(3)) or device
                rest[i] = self.places.cpu_for(value)
        if kwargs.get("device") is not None:
            device = self.meant(kwargs["device"], sys._getframe(3))
            kwargs = {**kwargs, "device": self.places.cpu_for(kwargs["device"])}
        if isinstance(source, self.Fake) and not self.on_cpu(source):
            if device is not None and device.type == "cpu":
                return self.trace.to_cpu(source, lambda t: function(t, *rest, **kwargs))
            with self.trace.recording():
                return self.cast(function, (source, *rest), kwargs)
        if device is None or device.type != "cuda":
            return self.followed(self.cast(function, (source, *rest), kwargs), [source] if isinstance(source, self.Fake) else [])
        return self.trace.to_gpu(source, lambda t: function(t, *rest, **kwargs))

    def cast(self, function, args, kwargs):
        """A tensor that stays where it is, in another type: what is known of its numbers stays known."""
        out = function(*args, **kwargs)
        if isinstance(args[0], self.Fake) and out is not args[0]:
            self.trace.known.follow(function, args, kwargs, [args[0]], out)
        return out

    def set_data(self, function, args, kwargs):
        to, data = args[0], args[1]
        if isinstance(data, self.Fake) and not isinstance(to, self.Fake):
            self.trace.replace(to, data)
            return None
        return function(*args, **kwargs)

    def padded(self, function, args, kwargs):
        """Packed sequences with padding again: written into one tensor (aten/src/ATen/native/PackedSequence.cpp)."""
        data, sizes, first, value, total = args
        if not isinstance(data, self.Fake):
            return function(*args, **kwargs)
        counts = self.trace.numbers(sizes)
        batch, steps = counts[0], max(total, len(counts))
        with self.trace.recording():
            out = data.new_full((steps * batch, *data.shape[1:]), value)
            out = out.index_copy_(0, data.new_empty(data.shape[0], dtype=self.torch.int64), data).view(steps, batch, *data.shape[1:])
            out = out.transpose(0, 1) if first else out
        return out, self.trace.on_host([sum(n > i for n in counts) for i in range(batch)])

    def deepcopy(self, function, args, kwargs):
        source, memo = args[0], args[1] if len(args) > 1 else {}
        if not isinstance(source, self.Fake):
            return function(*args, **kwargs)
        if id(source) in memo:
            return memo[id(source)]
        with self.torch.no_grad(), self.trace.recording("parameters" if getattr(source, "_is_param", False) else None):
            out = source.clone()
        out.requires_grad_(source.requires_grad)
        for name in ("_is_param", MARK):
            if name in source.__dict__:
                setattr(out, name, source.__dict__[name])
        memo[id(source)] = out
        return out


class Storage(weakref.ref):
    """A storage that the trace counts; its number, and where its beginning is written down."""

    __slots__ = ("number", "place", "key")


def operators(torch, trace):
    """The second mode."""
    return _bounded(torch, Bounds(torch, trace), trace.saw, trace.ours)


def operators_on_host(torch, trace):
    """The same for tensors without data that have left the GPU: the trace counts none of them."""
    return _bounded(torch, _OnHost(torch, trace), lambda *call: None, {})


def _bounded(torch, bounds, saw, ours):
    """A mode that sees each operator, and gives those whose results depend on data the largest there can be. ours are functions that stand for operators before autograd."""
    from torch._subclasses import fake_tensor
    from torch.utils._python_dispatch import TorchDispatchMode

    surprises = tuple(getattr(fake_tensor, name) for name in ("DynamicOutputShapeException", "DataDependentOutputException") if hasattr(fake_tensor, name))

    class Operators(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            kwargs = kwargs or {}
            if torch.is_inference_mode_enabled() and func.namespace == "aten":  # autograd is left out, and with it what it does first: operators made of others come here whole
                with self:
                    out = ours[func](*args, **kwargs) if func in ours else func.decompose(*args, **kwargs)
                if out is not NotImplemented:
                    return out
            if func in bounds.reuse and bounds.reuses(func, args, kwargs):
                saw(func, args, kwargs, args[0])
                return args[0]
            bound = bounds.of.get(func)
            if bound is not None:
                out = bound(func, args, kwargs)
            else:
                try:
                    out = func(*args, **kwargs)
                except surprises:
                    out = bounds.other(func, args, kwargs)
            saw(func, args, kwargs, out)
            return out

    mode = Operators()
    mode.bounds = bounds
    return mode


# Operators of autograd's whose result may take the place of their first argument
REUSED = (("add", "Tensor"), ("scatter", "src"), ("scatter", "value"), ("scatter_add", "default"), ("index_put", "default"), ("index_add", "default"), ("sub", "Tensor"), ("mul", "Tensor"))


class Bounds:
    """Operators whose results depend on data: the largest result there can be, which the trace is told of."""

    def __init__(self, torch, trace):
        self.torch, self.trace = torch, trace
        aten = torch.ops.aten
        self.of = {}
        for name, answer in {
            "nonzero.default": self.nonzero, "masked_select.default": self.all_of_them, "_unique2.default": self.unique, "unique_dim.default": self.unique,
            "unique_consecutive.default": self.unique, "_local_scalar_dense.default": self.scalar, "equal.default": lambda *a: True,
            "index.Tensor": self.index, "repeat_interleave.Tensor": self.repeated, "bincount.default": self.counted, "is_nonzero.default": lambda *a: False,
            "histc.default": lambda func, args, kwargs: args[0].new_empty(args[1] if len(args) > 1 else 100), "nonzero_static.default": None,
            "sigmoid.default": self.sigmoid, "log_sigmoid_forward.default": self.log_sigmoid,
            "allclose.default": lambda *a: True, "_pack_padded_sequence.default": self.packed,
            "_ctc_loss.Tensor": self.ctc, "_ctc_loss_backward.Tensor": self.ctc_backward,
            # A mask of bytes is taken for one of booleans, with a warning (aten/src/ATen/native/TensorCompare.cpp, where_self_out); without data it is refused.
            **dict.fromkeys(("where.self", "masked_fill.Scalar", "masked_fill.Tensor", "masked_fill_.Scalar", "masked_fill_.Tensor", "masked_scatter.default", "masked_scatter_.default"), self.by_bytes),
            # Products whose result has a type of its own: only CUDA has them, and 2.11's decomposition of addmm takes the type for a factor.
            "mm.dtype": self.product, "bmm.dtype": self.product, "addmm.dtype": self.product, "baddbmm.dtype": self.product,
            "mm.dtype_out": self.into, "bmm.dtype_out": self.into, "addmm.dtype_out": self.into, "baddbmm.dtype_out": self.into,
        }.items():
            packet, _, overload = name.partition(".")
            operator = getattr(getattr(aten, packet, None), overload, None)
            if operator is not None and answer is not None:
                self.of[operator] = answer
        self.alone, self.begun = None, set()  # references to a tensor and to its storage that nobody else has; storages of results that autograd goes on writing into
        self.parted = set()  # storages of buffers that a kernel gives back in parts
        counted = hasattr(torch.Tensor, "_use_count") and hasattr(torch._C, "_storage_Use_Count")
        self.reuse = frozenset(filter(None, (getattr(getattr(aten, name), overload, None) for name, overload in REUSED))) if counted else frozenset()

    def reuses(self, func, args, kwargs):
        """Whether a result of autograd's takes the place of its first argument. Autograd adds gradients up in place, and writes into zeros that it has just made, where nobody else has the tensor
        (https://github.com/pytorch/pytorch/blob/v2.11.0/torch/csrc/autograd/input_buffer.cpp, can_accumulate_inplace; torch/csrc/autograd/FunctionsManual.cpp, areAnyTensorSubclassLike):
        but not on tensors like those of a trace, for which it makes new ones."""
        trace, into = self.trace, args[0]
        if trace.phase != "backward" or not trace.depth or self.torch.is_grad_enabled() or not isinstance(into, trace.FakeTensor):
            return False
        held = into._use_count(), self.torch._C._storage_Use_Count(into.untyped_storage()._cdata)
        name = func.overloadpacket.__name__
        if self.alone is None:  # the first sum is of two gradients that nobody else has: see calibrate
            self.alone = held if name == "add" else None
            return False
        # A view has the tensor that it is a part of beside it. Views that a kernel makes of one buffer have not: the last of them that is left is added to in place, and keeps all of the buffer.
        parted = into.untyped_storage()._cdata in self.parted
        if held != (self.alone[0], self.alone[1] * 2 if parted else self.alone[1] + (into._base is not None)):
            return False
        if name == "add":
            return isinstance(args[1], trace.FakeTensor) and args[1].shape == into.shape and args[1].dtype == into.dtype and kwargs.get("alpha", 1) == 1
        if name in ("sub", "mul"):
            return into.untyped_storage()._cdata in self.begun and not (isinstance(args[1], trace.FakeTensor) and (args[1].dtype != into.dtype or args[1].numel() > into.numel()))
        return True

    def sigmoid(self, func, args, kwargs):
        """In a backward pass it begins the gradient of binary_cross_entropy_with_logits, which is written into it."""
        out = func(*args, **kwargs)
        if self.trace.phase == "backward" and self.trace.depth and not self.torch.is_grad_enabled():
            self.begun.add(out.untyped_storage()._cdata)
        return out

    def told(self, out):
        self.trace.depends(out)
        return out

    def rows(self, mask, make):
        """A result with a row for every value of a mask that holds: of an expert's share where the mask chooses one, else of all."""
        part, count = self.trace.routing.part(mask), self.trace.known.count(mask)
        if count is not None:
            return make(count)
        out = make(mask.numel() if part is None else part)
        if part is None:
            return self.told(out)
        self.trace.goes_to_an_expert(out)
        return out

    def nonzero(self, func, args, kwargs):
        return self.rows(args[0], lambda n: args[0].new_empty((n, args[0].dim()), dtype=self.torch.int64))

    def all_of_them(self, func, args, kwargs):
        if args[0].shape == args[1].shape:
            return self.rows(args[1], lambda n: args[0].new_empty(n))
        shape = self.torch.broadcast_shapes(args[0].shape, args[1].shape)
        return self.told(args[0].new_empty(shape.numel()))

    def unique(self, func, args, kwargs):
        n = args[0].numel() if "dim" not in str(func) else args[0].shape[args[1]]
        index = args[0].new_empty(args[0].numel(), dtype=self.torch.int64)
        values = args[0].new_empty(args[0].shape if "dim" in str(func) else (n,))
        return self.told(values), index, self.told(args[0].new_empty(n, dtype=self.torch.int64))

    def scalar(self, func, args, kwargs):
        self.trace.saw_question()
        kind = args[0].dtype
        return False if kind is self.torch.bool else _mode.MADE_UP if kind.is_floating_point else 1

    def index(self, func, args, kwargs):
        """A mask of booleans is as many indices as it has places."""
        chosen, mask = [], None
        for i in args[1]:
            if i is not None and i.dtype in (self.torch.bool, self.torch.uint8):
                mask = i
                known = self.trace.known.count(i)
                count = self.trace.routing.part(i) if known is None else known
                chosen += [i.new_empty(i.numel() if count is None else count, dtype=self.torch.int64)] * i.dim()
            else:
                chosen.append(i)
        if mask is None:
            return func(args[0], chosen)
        return self.rows(mask, lambda n: func(args[0], chosen))

    def packed(self, func, args, kwargs):
        """Sequences without their padding. How long each is, is known where the script has the lengths on the host; else all are as long as the longest."""
        x, lengths, first = args[:3]
        batch, steps = (x.shape[0], x.shape[1]) if first else (x.shape[1], x.shape[0])
        real = not isinstance(lengths, self.trace.FakeTensor)
        each = self.trace.numbers(lengths) if real else [steps] * batch
        data = x.new_empty((sum(each), *x.shape[2:]))
        return data if real else self.told(data), self.trace.on_host([sum(n > t for n in each) for t in range(max(each))])

    def by_bytes(self, func, args, kwargs):
        place = 0 if "where" in str(func) else 1
        if args[place].dtype is self.torch.uint8:
            args = (*args[:place], args[place].bool(), *args[place + 1:])
        return func(*args, **kwargs)

    def log_sigmoid(self, func, args, kwargs):
        """On a GPU nothing is kept beside the input (https://github.com/pytorch/pytorch/blob/v2.11.0/aten/src/ATen/native/cuda/ActivationLogSigmoidKernel.cu)."""
        return self.torch.empty_like(args[0]), args[0].new_empty(0)

    def ctc(self, func, args, kwargs):
        """CTC keeps a number for every step and every place in the longest target with blanks between
        (https://github.com/pytorch/pytorch/blob/v2.11.0/aten/src/ATen/native/cuda/LossCTC.cu, ctc_loss_gpu_template)."""
        x, targets, _, lengths = args[:4]
        known = not isinstance(lengths, self.trace.FakeTensor)
        longest = max(self.trace.numbers(lengths), default=0) if known else targets.shape[-1]
        alpha = x.new_empty((x.shape[1], x.shape[0], 2 * longest + 1))
        return x.new_empty(x.shape[1]), alpha if known else self.told(alpha)

    def ctc_backward(self, func, args, kwargs):
        """Beside the gradient there is for a moment as much as forward kept."""
        grad, beta = args[1].new_empty(args[1].shape), args[6].new_empty(args[6].shape)
        self.trace.saw(func, args, kwargs, (grad, beta))
        return grad

    def product(self, func, args, kwargs):
        given = {a.name: value for a, value in zip(func._schema.arguments, args)} | kwargs
        left, right = (given["mat1"], given["mat2"]) if "mat1" in given else (given["batch1"], given["batch2"]) if "batch1" in given else (given["self"], given["mat2"])
        return left.new_empty((*left.shape[:-1], right.shape[-1]), dtype=given["out_dtype"])

    def into(self, func, args, kwargs):
        return kwargs["out"]

    def repeated(self, func, args, kwargs):
        size = kwargs.get("output_size")
        return func(*args, **kwargs) if size is not None else self.told(args[0].new_empty(args[0].numel()))

    def counted(self, func, args, kwargs):
        least = args[2] if len(args) > 2 else kwargs.get("minlength", 0)
        weights = args[1] if len(args) > 1 else kwargs.get("weights")
        return args[0].new_empty(max(least, 1), dtype=self.torch.int64 if weights is None else self.torch.float64)

    def other(self, func, args, kwargs):
        """An operator nobody wrote down: as large as the largest tensor it was given."""
        given = self.trace.tensors((args, kwargs))
        if "nms" in func.name():  # torchvision's, and libraries' of its kind: the boxes it keeps, by number
            return self.told(args[0].new_empty(args[0].shape[0], dtype=self.torch.int64))
        if not given:
            raise RuntimeError(f"{func} has a result whose size depends on data, and no argument bounds it")
        widest = max(given, key=lambda t: t.numel())
        out = tuple(self.told(widest.new_empty(widest.numel())) for _ in func._schema.returns)
        return out[0] if len(out) == 1 else out


class _OnHost(Bounds):
    """Bounds of tensors that no trace counts."""

    bounded = False

    def told(self, out):
        self.bounded = True
        return out
