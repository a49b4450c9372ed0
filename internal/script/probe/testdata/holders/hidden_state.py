# truth: the hidden state h is never detached
# holder: saved h
import torch
from torch import nn

import kit

cell = nn.RNNCell(kit.d(1024, 32), kit.d(1024, 32)).to(kit.DEVICE)
h = torch.zeros(kit.d(2048, 8), kit.d(1024, 32), device=kit.DEVICE)
for step in kit.steps():
    h = cell(kit.batch()[0], h)
