# truth: the list kept, among objects that fail when they are touched
# holder: variable kept[*]
import torch
from torch import nn

import kit

class Hostile:
    def __getattr__(self, name):
        raise RuntimeError("touched")

    def __len__(self):
        raise RuntimeError("counted")

    def __eq__(self, other):
        raise RuntimeError("compared")

    def __hash__(self):
        raise RuntimeError("hashed")

    def __bool__(self):
        raise RuntimeError("asked")

    @property
    def __class__(self):
        raise RuntimeError("classified")


class Lazy(dict):
    def __getitem__(self, key):
        raise RuntimeError("read")

    keys = values = items = __iter__ = __len__ = __getitem__


objects = [Hostile() for _ in range(100)]
objects.append(Lazy(a=objects))
kept = []
for step in kit.steps():
    kept.append(kit.batch()[0])
