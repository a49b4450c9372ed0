# truth: the class attribute Cache.items
# holder: variable Cache.items[*]
import torch
from torch import nn

import kit

class Cache:
    items = []


def remember():
    Cache.items.append(kit.batch()[0])


for step in kit.steps():
    remember()
