"""Where the script believes its tensors to be.

In a capture every tensor lies on the CPU. What the script moved to a GPU or made there carries the device it asked for, and so does what is computed from
it; the script, and every library but PyTorch itself, is told that device. PyTorch's own code is told the truth, on which it depends.
"""
import os
import sys
import weakref

MARK = "_plimsoll_device"
PINNED = "_plimsoll_pinned"


class Places:
    def __init__(self, torch):
        self.torch = torch
        self.home = os.path.dirname(os.path.abspath(torch.__file__)) + os.sep
        self.relays = {self.home + os.path.join("utils", "_device.py"), self.home + "overrides.py"}
        self.index = 0  # of the current GPU, as torch.cuda.set_device left it
        self.used = set()  # numbers of the GPUs that tensors were sent to
        self.defaults = []  # devices of torch.set_default_device and `with torch.device(…)`, innermost last
        self.unreal = None  # device of tensors without data: that of the model they came from
        self.honest = False  # no pretence while the step is exported
        self.moved = weakref.WeakValueDictionary()  # every tensor believed to be on a GPU, by id

    def named(self, value):
        """The device that an argument names, or None; a number is a GPU's."""
        torch = self.torch
        if isinstance(value, bool) or value is None:
            return None
        if isinstance(value, int):
            self.used.add(value)
            return torch.device("cuda", value)
        if isinstance(value, str):
            kind, _, number = value.partition(":")
            if kind not in ("cuda", "cpu", "meta"):
                return None
            value = torch.device(kind, int(number)) if number.isdigit() else torch.device(kind)
        if not isinstance(value, torch.device):
            return None
        if value.type != "cuda":
            return value
        value = value if value.index is not None else torch.device("cuda", self.index)
        self.used.add(value.index)
        return value

    def several(self):
        """What to say of a script that spreads over several GPUs; nothing of others."""
        names = ", ".join(f"cuda:{i}" for i in sorted(self.used))
        return [f"the script uses {len(self.used)} GPUs ({names}): this is what they hold together"] if len(self.used) > 1 else []

    def cpu_for(self, value):
        """The same argument with the CPU for every GPU."""
        device = self.named(value)
        return self.torch.device("cpu") if device is not None and device.type == "cuda" else value

    def put(self, tensor, device):
        """Let a tensor be believed on a device."""
        if device.type == "cuda":
            self.moved[id(tensor)] = tensor
        setattr(tensor, MARK, device)

    def of(self, tensor, true):
        """The device to name for a tensor that truly is on another."""
        mark = tensor.__dict__.get(MARK)
        if mark is not None:
            return mark
        return self.unreal if self.unreal is not None and hasattr(tensor, "fake_mode") else true

    def on_gpu(self, tensor):
        device = self.of(tensor, None)
        return device if device is not None and device.type == "cuda" else None

    def default(self):
        return self.defaults[-1] if self.defaults else None

    def tells_truth_to(self, frame):
        """Whether the code that asks is PyTorch's own, or a graph is being exported. Other modes only pass a question on."""
        while frame is not None and frame.f_code.co_filename in self.relays:
            frame = frame.f_back
        return self.honest or frame is None or frame.f_code.co_filename.startswith(self.home)

    def follow(self, given, results, device=None):
        """Results are where a factory was told to make them, else where what they were made of is."""
        if device is None:
            device = next((d for d in map(self.on_gpu, given) if d is not None), None)
        if device is not None:
            for t in results:
                if t.__dict__.get(MARK) != device or id(t) not in self.moved:
                    self.put(t, device)

    def believed(self):
        """Every tensor with data that the script has on a GPU now."""
        return [t for t in list(self.moved.values()) if self.on_gpu(t) is not None and not hasattr(t, "fake_mode") and t.layout is self.torch.strided]


def install(torch, places):
    """Teach devices, parameters and tensors without data about places."""
    from torch._subclasses.fake_tensor import FakeTensor
    from torch.utils import _device

    _parameters(torch, places)
    _fakes(FakeTensor, places)
    _contexts(_device.DeviceContext, places)


def _parameters(torch, places):
    original = torch.nn.Parameter.__new__

    def __new__(cls, data=None, *args, **kwargs):
        made = original(cls, data, *args, **kwargs)
        device = places.on_gpu(data) if data is not None else None
        if device is not None:
            places.put(made, device)
        return made

    torch.nn.Parameter.__new__ = staticmethod(__new__)


def _fakes(kind, places):
    true = kind.device  # a property of Python's, which no function mode sees

    def device(tensor):
        here = true.fget(tensor)
        if here.type != "cpu" or places.tells_truth_to(sys._getframe(1)):
            return here
        return places.of(tensor, here)

    kind.device = property(device)


def _contexts(kind, places):
    """torch.set_default_device. Its mode lies below every other, so it would add the GPU behind our back; `with torch.device("cuda")` lies above."""
    enter, leave = kind.__enter__, kind.__exit__

    def __enter__(context):
        places.defaults.append(places.named(context.device))
        context.device = places.cpu_for(context.device)
        return enter(context)

    def __exit__(context, *failure):
        places.defaults.pop()
        return leave(context, *failure)

    kind.__enter__, kind.__exit__ = __enter__, __exit__


class Aliases:
    """What has taken the place of parameters that were moved, as long as both live: a script may still refer to the old one."""

    def __init__(self):
        self.by_id = {}

    def put(self, old, new):
        key = id(old)
        self.by_id[key] = weakref.ref(old, lambda _: self.by_id.pop(key, None)), weakref.ref(new)

    def of(self, old):
        known = self.by_id.get(id(old))
        return known[1]() if known is not None and known[0]() is old else None
