# truth: a copy of the model for every epoch in best
# holder: parameter best[*]
import torch
from torch import nn

import kit

import copy

model, best = kit.net(), []
for epoch in kit.steps(4):
    best.append(copy.deepcopy(model))
