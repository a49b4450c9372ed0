# truth: a copy of the model that is being made
# holder: parameter 
import torch
from torch import nn

import kit

import copy

model = kit.net(kit.d(4096, 32), depth=kit.d(26, 3))


class Trap(nn.Module):
    def __deepcopy__(self, memo):
        kit.look()


model.append(Trap())
other = copy.deepcopy(model)
