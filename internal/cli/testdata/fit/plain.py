"""A plain loop: 20 steps of AdamW; prints every parameter."""
import json

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(1)
model = nn.Sequential(nn.Linear(12, 32), nn.Tanh(), nn.Linear(32, 4))
data = TensorDataset(torch.randn(118, 12), torch.randint(0, 4, (118,)))
loader = DataLoader(data, batch_size=12, shuffle=True)  # the last batch has 10
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
for epoch in range(2):
    for x, y in loader:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
print(json.dumps([p.double().flatten().tolist() for p in model.parameters()]))
