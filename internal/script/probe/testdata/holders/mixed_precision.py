# truth: the list losses, in graphs under autocast
# holder: saved losses[*]
import torch
from torch import nn

import kit

model = kit.net()
optimizer = kit.sgd(model)
losses = []
for step in kit.steps():
    x, y = kit.batch()
    with torch.autocast(kit.DEVICE, dtype=torch.bfloat16):
        losses.append(nn.functional.cross_entropy(model(x), y))
