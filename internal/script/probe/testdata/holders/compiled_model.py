# truth: losses of a compiled model
# holder: saved losses[*]
import torch
from torch import nn

import kit

model = kit.net()
compiled = torch.compile(model, backend="aot_eager")
losses = []
for step in kit.steps():
    x, y = kit.batch()
    losses.append(nn.functional.cross_entropy(compiled(x), y))
