# truth: clones of the state in checkpoints
# holder: variable checkpoints[*]
import torch
from torch import nn

import kit

model, checkpoints = kit.net(kit.d(2048, 32)), []
for epoch in kit.steps(4):
    checkpoints.append({k: v.clone() for k, v in model.state_dict().items()})
