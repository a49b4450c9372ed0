"""Stands before every call of PyTorch that a captured script makes: keeps tensors on the CPU, answers for those without data, and shows the capture each call."""
import sys
import threading

from . import _checks, _lazy
from ._places import PINNED

MADE_UP = 0.9  # what a number reads as that a tensor without data does not have: neither 1 - x nor log(x) is zero, by which scripts and NAdam divide


def enter(torch, capture):
    """Switch the mode on for the rest of the process."""
    from torch.overrides import TorchFunctionMode

    answers = _Answers(torch, capture)
    places = capture.places

    class OnCPU(TorchFunctionMode):
        def __torch_function__(self, function, kinds, args=(), kwargs=None):
            kwargs = kwargs or {}
            if function in answers.of_lists:
                args = answers.read(args)
            if capture.exporting:
                return answers.while_exporting(function, args, kwargs)
            special = answers.special.get(function)
            if special is not None and args and not places.tells_truth_to(sys._getframe(1)):
                return special(function, args, kwargs)
            mover = answers.movers.get(function)
            if mover is not None:
                return mover(function, args, kwargs)
            value = answers.values.get(function)
            if value is not None and args and isinstance(args[0], capture.FakeTensor):
                capture.saw_question()
                return value(args[0])
            return answers.plain(function, args, kwargs)

    OnCPU().__enter__()
    format_as_numbers(torch, capture.FakeTensor)
    torch.Tensor.record_stream = lambda tensor, stream: None
    bootstrap = threading.Thread._bootstrap_inner

    def _bootstrap_inner(thread):
        OnCPU().__enter__()  # modes are a thread's own
        bootstrap(thread)

    threading.Thread._bootstrap_inner = _bootstrap_inner


def format_as_numbers(torch, kind):
    """f"{loss:.3f}" of a tensor without data prints a number, too."""
    original = torch.Tensor.__format__

    def __format__(tensor, spec):
        if isinstance(tensor, kind) and tensor.dim() == 0:
            return (1.0 if tensor.dtype.is_floating_point else 1).__format__(spec)
        return original(tensor, spec)

    torch.Tensor.__format__ = __format__


class _Answers:
    """What to do instead of a call, by the function that is called."""

    def __init__(self, torch, capture):
        self.torch, self.capture, self.places = torch, capture, capture.places
        from torch.utils._device import _device_constructors

        self.factories = _device_constructors()
        Tensor = torch.Tensor
        self.special = {
            Tensor.device.__get__: self.device, Tensor.is_cuda.__get__: self.is_cuda, Tensor.is_cpu.__get__: self.is_cpu,
            Tensor.get_device: self.get_device, Tensor.type: self.type, Tensor.is_pinned: self.is_pinned,
        }
        self.movers = {
            Tensor.to: self.to, Tensor.cuda: self.cuda, Tensor.cpu: self.cpu, Tensor.pin_memory: self.pin_memory,
            Tensor.data.__set__: self.set_data, torch._C._nn._parse_to: lambda function, args, kwargs: function(*args, **kwargs),
            torch.device: self.device_of_number,
        }
        ones = lambda t: torch.ones(t.shape, dtype=torch.float32 if t.dtype is torch.bfloat16 else t.dtype)
        self.values = {
            Tensor.item: lambda t: MADE_UP if t.dtype.is_floating_point else 0, Tensor.__float__: lambda t: MADE_UP, Tensor.__int__: lambda t: 1,
            Tensor.__index__: lambda t: 1, Tensor.__bool__: self.truth,
            Tensor.tolist: lambda t: ones(t).tolist(), Tensor.numpy: lambda t: ones(t).numpy(), Tensor.__array__: lambda t: ones(t).numpy(),
        }
        self.of_lists = {torch.tensor, torch.as_tensor}
        self.finite = {torch.isfinite, Tensor.isfinite, torch.all, Tensor.all}
        self.alls = {torch.all, Tensor.all, getattr(torch, "_is_all_true", torch.all)}
        self.checks = capture.places.home + "distributions"

    def truth(self, tensor):
        """Whether a tensor without data holds: what a check of its values needs, else what is known of it, else no."""
        passing = _checks.passing()
        return bool(tensor.__dict__.get("_plimsoll_true")) if passing is None else passing

    def read(self, value):
        """torch.tensor([0.0, x]) reads the number of x: tensors without data among others in a list, or deeper, as what they read as."""
        if type(value) is tuple and value and isinstance(value[0], (list, tuple)):
            return (self.listed(value[0]), *value[1:])
        return value

    def listed(self, value):
        if isinstance(value, (list, tuple)):
            return [self.listed(v) if isinstance(v, (list, tuple, self.torch.Tensor)) else v for v in value]
        if not isinstance(value, self.capture.FakeTensor):
            return value
        return self.number(value)

    def number(self, tensor):
        self.capture.saw_question()
        return self.values[self.torch.Tensor.tolist if tensor.dim() else self.torch.Tensor.item](tensor)

    # What a tensor says of its place -----------------------------------------------------------------------------------------

    def device(self, function, args, kwargs):
        return self.places.of(args[0], function(*args))

    def is_cuda(self, function, args, kwargs):
        return self.places.on_gpu(args[0]) is not None

    def is_cpu(self, function, args, kwargs):
        return self.places.on_gpu(args[0]) is None and function(*args)

    def get_device(self, function, args, kwargs):
        device = self.places.on_gpu(args[0])
        return function(*args) if device is None else device.index

    def is_pinned(self, function, args, kwargs):
        return PINNED in args[0].__dict__

    def type(self, function, args, kwargs):
        """x.type() names the type, x.type(T) converts; a CUDA type is the CPU's one in another place."""
        wanted = args[1] if len(args) > 1 else kwargs.get("dtype")
        if wanted is None:
            name = function(args[0])
            return name.replace("torch.", "torch.cuda.") if self.places.on_gpu(args[0]) else name
        on_cpu = getattr(wanted, "on_cpu", wanted)
        if isinstance(wanted, str):
            on_cpu = wanted.replace("torch.cuda.", "torch.")
        if on_cpu == wanted:
            return self.plain(function, args, kwargs)
        return self.moved(args[0], function(args[0], on_cpu), self.places.named("cuda"))

    def device_of_number(self, function, args, kwargs):
        """torch.device(0) is a GPU; up to 2.6 PyTorch asks for the machine's own."""
        return function("cuda", args[0]) if len(args) == 1 and type(args[0]) is int and not kwargs else function(*args, **kwargs)

    # What moves a tensor -----------------------------------------------------------------------------------------------------

    def to(self, function, args, kwargs):
        source, rest, device = args[0], list(args[1:]), None
        for i, value in enumerate(rest):
            if i == 0 and isinstance(value, self.torch.Tensor):
                device = self.places.of(value, self.torch.device("cpu"))
            elif i == 0 or not isinstance(value, (int, float)):
                device = self.places.named(value) or device
                rest[i] = self.places.cpu_for(value)
        if kwargs.get("device") is not None:
            device = self.places.named(kwargs["device"])
            kwargs = {**kwargs, "device": self.places.cpu_for(kwargs["device"])}
        out = function(source, *rest, **kwargs)
        if device is None or device == self.places.of(source, None):
            self.capture.saw_function(function, (source, *rest), kwargs, out)
            self.places.follow([source], [out] if out is not source else [])
            return out
        return self.moved(source, out, device)

    def cuda(self, function, args, kwargs):
        asked = kwargs.get("device", args[1] if len(args) > 1 and not isinstance(args[1], bool) else "cuda")
        return self.moved(args[0], args[0], self.places.named("cuda" if asked is None else asked))

    def cpu(self, function, args, kwargs):
        return self.moved(args[0], args[0], self.torch.device("cpu"))

    def moved(self, source, out, device):
        """A tensor in another place is another tensor, but for parameters, which keep their identity when their module moves."""
        if device is None or device == self.places.of(source, None) or device.type == "cpu" and self.places.on_gpu(source) is None:
            return out
        if self.torch.Tensor.layout.__get__(out) is not self.torch.strided:
            self.capture.fail("a sparse tensor is moved to the GPU, which a captured step cannot have")
        if out is source and not isinstance(source, self.torch.nn.Parameter) and not _lazy.waits(self.torch, source):
            out = source.view_as(source)
        self.places.put(out, device)
        if device.type == "cuda":
            self.capture.saw_arrival(out)
        elif id(source) in self.capture.produced:
            self.capture.saw_function(self.torch.Tensor.cpu, (source,), {}, out)
        return out

    def set_data(self, function, args, kwargs):
        device = self.places.on_gpu(args[1])
        function(*args, **kwargs)
        if device is not None:
            self.places.put(args[0], device)

    def pin_memory(self, function, args, kwargs):
        setattr(args[0], PINNED, True)
        return args[0]

    # Everything else ---------------------------------------------------------------------------------------------------------

    def while_exporting(self, function, args, kwargs):
        if kwargs.get("device") is not None:
            kwargs = {**kwargs, "device": self.places.cpu_for(kwargs["device"])}
        if function is self.torch.Tensor.to:
            args = (args[0], *(self.places.cpu_for(a) if not isinstance(a, (int, float)) or i == 0 else a for i, a in enumerate(args[1:])))
        elif function is self.torch.Tensor.cuda:
            return args[0]
        value = self.values.get(function)
        if value is not None and args and isinstance(args[0], self.capture.FakeTensor):
            return value(args[0])
        return function(*args, **kwargs)

    def holds(self, function, given, frame):
        """Whether a result is believed to be true: that all is finite, and what PyTorch's distributions check of their parameters."""
        if function in self.alls and frame.f_code.co_filename.startswith(self.checks):
            return True
        return function in self.finite and (function not in self.alls or bool(given) and "_plimsoll_true" in given[0].__dict__)

    def plain(self, function, args, kwargs):
        capture, device, pinned = self.capture, None, False
        if kwargs.get("device") is not None:
            device = self.places.named(kwargs["device"])
            kwargs = {**kwargs, "device": self.places.cpu_for(kwargs["device"])}
        elif function in self.factories:
            device = self.places.default()
        if "pin_memory" in kwargs:
            pinned = bool(kwargs["pin_memory"])
            kwargs = {k: v for k, v in kwargs.items() if k != "pin_memory"}
        out = function(*args, **kwargs)
        if (function in self.finite or function in self.alls) and self.holds(function, capture.tensors((args, kwargs)), sys._getframe(2)):
            setattr(out, "_plimsoll_true", True)
        if capture.in_model or out is None or isinstance(out, (bool, int, float, str)):
            return out
        results = capture.tensors(out)
        if not results:
            return out
        given = capture.tensors((args, kwargs))
        self.places.follow(given, results, device)
        if pinned:
            setattr(results[0], PINNED, True)
        capture.saw_function(function, args, kwargs, out)
        return out
