"""Batch norm sees the batch as a whole: a split must leave this script alone."""
import json

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(7)
model = nn.Sequential(nn.Linear(12, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Linear(32, 4))
loader = DataLoader(TensorDataset(torch.randn(64, 12), torch.randint(0, 4, (64,))), batch_size=16, shuffle=True)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-1)
for x, y in loader:
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(x), y).backward()
    optimizer.step()
print(json.dumps([p.double().flatten().tolist() for p in model.parameters()]))
