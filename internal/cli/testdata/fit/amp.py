"""Mixed precision with a gradient scaler, clipping after unscale_: 20 steps."""
import json

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(3)
model = nn.Sequential(nn.Linear(12, 32), nn.GELU(), nn.Linear(32, 4))
data = TensorDataset(torch.randn(160, 12), torch.randint(0, 4, (160,)))
loader = DataLoader(data, batch_size=16, shuffle=True)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-1)
scaler = torch.amp.GradScaler("cpu", init_scale=1024.0, growth_interval=5)
for epoch in range(2):
    for x, y in loader:
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = nn.functional.cross_entropy(model(x), y)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        scaler.step(optimizer)
        scaler.update()
print(json.dumps([p.double().flatten().tolist() for p in model.parameters()] + [[scaler.get_scale() / 1024]]))
