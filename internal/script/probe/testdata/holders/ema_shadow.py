# truth: copies of the weights in ema.shadow
# holder: variable ema.shadow
import torch
from torch import nn

import kit

class EMA:
    def __init__(self, model):
        self.shadow = {name: [p.detach().clone() for _ in range(24)] for name, p in model.named_parameters()}


model = kit.net(kit.d(2048, 32))
ema = EMA(model)
kit.look()
