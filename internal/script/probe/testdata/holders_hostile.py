"""A process full of objects that notice when they are touched. The walk must neither touch them, nor change anything, nor keep anything alive."""
import gc
import json
import sys
import types
import weakref

import torch
from torch import nn

from plimsoll import _holders

touched = []


def tell(what):
    def method(*args, **kwargs):
        touched.append(what)
        raise RuntimeError(what)

    return method


class Meta(type):
    __hash__ = tell("type hashed")
    __eq__ = tell("type compared")
    __instancecheck__ = tell("isinstance")
    __getattribute__ = tell("type attribute")


class Hostile(metaclass=Meta):
    __slots__ = ("data", "__weakref__")
    __getattr__ = __getattribute__ = tell("attribute")
    __len__, __iter__, __bool__, __eq__, __hash__, __repr__, __call__ = (tell(w) for w in ("len", "iter", "bool", "eq", "hash", "repr", "call"))
    __class__ = property(tell("class"))


class Pretender:
    __dict__ = property(tell("dict property"))

    @property
    def weights(self):
        touched.append("property")


class LazyDict(dict):
    __getitem__ = __iter__ = keys = values = items = get = __len__ = __contains__ = tell("lazy mapping")


class LazyModule(types.ModuleType):
    __getattr__ = tell("lazy module")
    __dir__ = tell("dir of lazy module")


class Overriding(torch.Tensor):
    @classmethod
    def __torch_function__(cls, function, kinds, args=(), kwargs=None):
        touched.append("torch function")
        return super().__torch_function__(function, kinds, args, kwargs or {})


class Mode(torch.utils._python_dispatch.TorchDispatchMode):
    def __torch_dispatch__(self, function, kinds, args=(), kwargs=None):
        touched.append("torch dispatch")
        return function(*args, **(kwargs or {}))


class Finalized:
    def __del__(self):
        touched.append("finalized by a collection")


def cycle():
    one = Finalized()
    one.me = one


def half_built():
    module = nn.Linear.__new__(nn.Linear)
    module.__dict__["training"] = True
    return module


def unpack(x):
    touched.append("unpacked")
    return x


def own_locals():
    """Before Python 3.13 a function's locals() is the very dict that a frame's f_locals is."""
    one = 1
    mine = locals()
    _holders.look(torch, "cpu", seconds=60)
    return mine["one"] == one


def program():
    sys.modules["lazy_module"] = LazyModule("lazy_module")
    hostile = object.__new__(Hostile)
    Hostile_data = type.__dict__["__dict__"].__get__(Hostile)["data"]
    Hostile_data.__set__(hostile, torch.zeros(11))
    lazy = LazyDict()
    dict.__setitem__(lazy, "inside", torch.zeros(12))
    own = torch.zeros(13).as_subclass(Overriding)
    sparse = torch.eye(4).to_sparse()
    with torch.autograd.graph.saved_tensors_hooks(lambda x: (x * 1,), unpack):
        packed = (torch.ones(14, requires_grad=True) * torch.ones(14)).exp()
    loop = [Pretender(), half_built()]
    loop.append(loop)
    objects = [hostile, lazy, own, packed, loop, sparse]
    collections = []
    gc.callbacks.append(lambda phase, info: collections.append(phase))
    dead = torch.zeros(15)
    watch = weakref.ref(dead)
    cycle()
    del touched[:]
    with Mode():
        result = _holders.look(torch, "cpu", seconds=60)
    gc.callbacks.pop()
    during = list(touched)
    del dead
    return {
        "touched": during, "collected": collections, "problem": result.get("problem"), "complete": result["walk"]["complete"], "died": watch() is None,
        "locals kept": own_locals(), "gc": gc.isenabled(), "grad": torch.is_grad_enabled(), "interval": sys.getswitchinterval() < 1,
        "named": sorted({h["name"] for h in result["holders"] if h["name"].startswith(("hostile", "lazy", "own", "sparse"))}),
        "packed": [h["op"] for h in result["holders"] if h["role"] == "saved" and h["name"] == "packed"], "objects": len(objects),
    }


def bounds():
    heap = [[i, [i]] for i in range(300_000)]
    kept = [torch.zeros(100) for _ in range(50)]
    few = _holders.look(torch, "cpu", seconds=60, objects=5000)
    none = _holders.look(torch, "cpu", seconds=0)
    full = _holders.look(torch, "cpu", seconds=60)
    held = sum(h["count"] for h in full["holders"] if h["name"] == "kept[*]")
    return {"objects": few["walk"]["stopped"], "time": none["walk"]["stopped"], "full": [full["walk"]["complete"], held, full["walk"]["objects"] > len(heap)], "kept": len(kept)}


gc.collect()
gc.set_threshold(20_000)  # a walk allocates many times more, and what it returns far less
print(json.dumps({**program(), "bounds": bounds()}))
