"""A loop that accumulates over two batches; the last of an epoch has two samples, too few for four parts."""
import json

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(16)
model = nn.Linear(12, 4)
loader = DataLoader(TensorDataset(torch.randn(26, 12), torch.randint(0, 4, (26,))), batch_size=8, shuffle=True)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-1)
for i, (x, y) in enumerate(loader):
    (nn.functional.cross_entropy(model(x), y) / 2).backward()
    if i % 2:
        optimizer.step()
        optimizer.zero_grad()
print(json.dumps([p.double().flatten().tolist() for p in model.parameters()]))
