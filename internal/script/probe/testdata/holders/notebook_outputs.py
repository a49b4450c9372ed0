# truth: outputs of notebook cells in Out
# holder: variable Out[*]
import torch
from torch import nn

import kit

import sys

space = sys.modules["__main__"].__dict__
space["Out"] = space["_oh"] = {}


def cells():
    for step in kit.steps():
        space["_"] = space[f"_{step}"] = space["_oh"][step] = kit.batch()[0]


cells()
