# truth: a forward hook appends to feats["layer2"]
# holder: variable feats["layer2"][*]
import torch
from torch import nn

import kit

model = kit.net()
optimizer = kit.sgd(model)
feats = {"layer2": []}
model[2].register_forward_hook(lambda module, args, out: feats["layer2"].append(out.detach()))
for step in kit.steps():
    kit.learn(model, optimizer, *kit.batch())
