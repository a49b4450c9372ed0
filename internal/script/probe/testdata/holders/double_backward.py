# truth: gradients kept with their graph in penalties
# holder: saved penalties[*]
import torch
from torch import nn

import kit

model = kit.net()
optimizer = kit.sgd(model)
penalties = []
for step in kit.steps():
    x, y = kit.batch()
    x.requires_grad_()
    (grad,) = torch.autograd.grad(torch.tanh(model(x)).sum(), x, create_graph=True)
    penalties.append(grad.norm())
