# truth: models of earlier trials in results
# holder: parameter results[*]["model"]
import torch
from torch import nn

import kit

results = {}
for trial in kit.steps(4):
    model = kit.net(kit.d(2048, 32))
    optimizer = torch.optim.AdamW(model.parameters())
    x, y = kit.batch(kit.d(64, 8), kit.d(2048, 32))
    kit.learn(model, optimizer, x, y)
    results[f"trial-{trial}"] = {"model": model, "optimizer": optimizer}
