# truth: outputs of the last stage of a model spread over four devices, which are one card here
# holder: saved results[*]
import torch
from torch import nn

import kit

devices = [torch.device(kit.DEVICE, 0) if kit.CUDA else torch.device(kit.DEVICE)] * 4
stages = [kit.net(depth=1).to(d) if i == 3 else nn.Linear(kit.d(1024, 32), kit.d(1024, 32)).to(d) for i, d in enumerate(devices)]
results = []
for step in kit.steps():
    x = kit.batch()[0]
    for stage, device in zip(stages, devices):
        x = torch.relu(stage(x.to(device)))
    results.append(x.mean())
