# truth: every loss is kept in the list losses with its graph
# holder: saved losses[*]
import torch
from torch import nn

import kit

model = kit.net()
optimizer = kit.sgd(model)
losses = []
for step in kit.steps():
    x, y = kit.batch()
    loss = nn.functional.cross_entropy(model(x), y)
    losses.append(loss)
