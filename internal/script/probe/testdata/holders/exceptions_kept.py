# truth: exceptions in errors keep the frames of work(), with its variable big
# holder: variable big
import torch
from torch import nn

import kit

errors = []


def work():
    big = kit.batch()[0]
    raise ValueError(len(big))


for step in kit.steps():
    try:
        work()
    except ValueError as error:
        errors.append(error)
