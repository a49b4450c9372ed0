# truth: outputs keeps the output of every step, and its graph
# holder: saved outputs[*]
import torch
from torch import nn

import kit

model = kit.net()
optimizer = kit.sgd(model)
outputs = {}
for step in kit.steps():
    outputs[step] = model(kit.batch()[0])
