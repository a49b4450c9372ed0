# truth: parameters, gradients and Adam's state of model
# holder: optimizer model
import torch
from torch import nn

import kit

model = kit.net(kit.d(4096, 64), depth=kit.d(8, 2))
optimizer = torch.optim.Adam(model.parameters())
for step in kit.steps(2):
    x, y = kit.batch(kit.d(64, 8), kit.d(4096, 64))
    kit.learn(model, optimizer, x, y)
