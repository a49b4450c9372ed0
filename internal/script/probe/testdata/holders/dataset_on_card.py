# truth: the whole dataset in images
# holder: variable images
import torch
from torch import nn

import kit

images = torch.randn(kit.d(1500, 16), kit.d(2**18, 64), device=kit.DEVICE)
model = kit.net()
optimizer = kit.sgd(model)
for step in kit.steps():
    x = images[step % 8: step % 8 + 8].flatten()[:kit.d(2**21, 1024)].view(-1, kit.d(1024, 32))
    kit.learn(model, optimizer, x, torch.zeros(len(x), dtype=torch.long, device=kit.DEVICE))
    if kit.CUDA:
        kit.look()
