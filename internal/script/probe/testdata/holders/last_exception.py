# truth: sys.last_value keeps the frame of a failed cell, with its variable activations
# holder: variable activations
import torch
from torch import nn

import kit

import sys


def cell():
    activations = [torch.randn(kit.d(2**26, 2**12), device=kit.DEVICE) for _ in range(6)]
    raise ValueError(len(activations))


try:
    cell()
except ValueError as error:
    sys.last_value = error
kit.look()
