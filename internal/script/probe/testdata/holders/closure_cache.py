# truth: cache, a variable of make(), kept by the function it returns
# holder: variable cache[*]
import torch
from torch import nn

import kit

def make():
    cache = []

    def remember(x):
        cache.append(x * 2)
        return x

    return remember


remember = make()
for step in kit.steps():
    remember(kit.batch()[0])
