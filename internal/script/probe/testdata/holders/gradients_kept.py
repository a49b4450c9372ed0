# truth: clones of gradients in saved_grads
# holder: variable saved_grads[*][*]
import torch
from torch import nn

import kit

model = kit.net()
optimizer = kit.sgd(model)
saved_grads = []
for step in kit.steps():
    kit.learn(model, optimizer, *kit.batch())
    saved_grads.append([p.grad.clone() for p in model.parameters()])
