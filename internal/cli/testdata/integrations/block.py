"""The context manager, also as a decorator; the error goes on."""
import sys

import kit
import torch

import plimsoll

model = kit.Hungry(steps=2)
try:
    with plimsoll.record(sys.argv[1] + "/report"):
        model(torch.ones(4))
        model(torch.ones(4))
except torch.OutOfMemoryError:
    print("the error went on")


@plimsoll.record(sys.argv[1] + "/report")
def fails():
    raise ValueError("not about memory")


try:
    fails()
except ValueError:
    print("and others too")
