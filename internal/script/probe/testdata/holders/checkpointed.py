# truth: losses of a checkpointed model, with their inputs of each block
# holder: saved losses[*]
import torch
from torch import nn

import kit

from torch.utils.checkpoint import checkpoint

model, losses = kit.net(), []
for step in kit.steps():
    x, y = kit.batch()
    for block in model:
        x = checkpoint(block, x, use_reentrant=False)
    losses.append(nn.functional.cross_entropy(x, y) + 0 * (x * x).sum())
