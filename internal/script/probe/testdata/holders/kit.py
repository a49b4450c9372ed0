"""What the programs in this folder share: sizes for the card or the processor, and steps that end when memory does.

On a card a program runs until its cap is reached, and the probe looks when the request fails. On the processor (tests) it takes a few steps, then the walk looks
from within the loop.
"""
import os
import sys

import torch
from torch import nn

from plimsoll import _holders

CUDA = os.environ.get("HOLDERS_DEVICE", "cpu") == "cuda"
DEVICE = "cuda" if CUDA else "cpu"


class Looked(SystemExit):
    """Ends a program that was looked into."""


def d(card, processor):
    """A size for the card, or a small one."""
    return card if CUDA else processor


def steps(few=8):
    """Endless on a card; on the processor a few, then the look."""
    n = 0
    while CUDA or n < few:
        yield n
        n += 1
    look()


def look():
    """On the processor: walk now and end. On a card: fill it up in small requests, so that the next one fails."""
    if CUDA:
        rest = []
        while True:
            rest.append(torch.empty(4 * 2**20, device=DEVICE))
    sys.modules["kit"].result = _holders.look(torch, "cpu", seconds=60)
    raise Looked(0)


def net(width=None, depth=4):
    """A plain network on the device."""
    width = width or d(1024, 32)
    layers = [m for _ in range(depth) for m in (nn.Linear(width, width), nn.ReLU())]
    return nn.Sequential(*layers, nn.Linear(width, 16)).to(DEVICE)


def batch(rows=None, width=None):
    rows, width = rows or d(2048, 8), width or d(1024, 32)
    return torch.randn(rows, width, device=DEVICE), torch.randint(16, (rows,), device=DEVICE)


def sgd(model):
    return torch.optim.SGD(model.parameters(), lr=1e-3)


def learn(model, optimizer, x, y):
    """One step that keeps nothing; returns its loss."""
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
    return loss


if CUDA:
    torch.cuda.set_per_process_memory_fraction(float(os.environ.get("HOLDERS_CAP", "2")) * 2**30 / torch.cuda.get_device_properties(0).total_memory)
