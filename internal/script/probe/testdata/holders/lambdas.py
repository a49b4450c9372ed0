# truth: y, a variable of step(), kept by lambdas in callbacks
# holder: variable y
import torch
from torch import nn

import kit

callbacks = []


def step():
    y = kit.batch()[0]
    callbacks.append(lambda: y)


for _ in kit.steps():
    step()
