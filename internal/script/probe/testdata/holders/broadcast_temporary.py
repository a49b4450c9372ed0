# truth: one temporary of the line that computes distances
# holder: temporary
import torch
from torch import nn

import kit

z = torch.randn(kit.d(14_000, 64), 1, device=kit.DEVICE)


def distances(z):
    return ((z[:, None] - z[None]) ** 2).sum(-1) + kit.look()


distances(z)
