# truth: results that functools.lru_cache keeps for embed()
# holder: variable embed
import torch
from torch import nn

import kit

import functools


@functools.lru_cache(maxsize=None)
def embed(step):
    return kit.batch()[0]


for step in kit.steps():
    embed(step)
