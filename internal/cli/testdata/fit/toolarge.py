"""Stands in for a card that holds four samples: a larger batch raises PyTorch's error."""
import json

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(9)
model = nn.Linear(12, 4)
loader = DataLoader(TensorDataset(torch.randn(64, 12), torch.randint(0, 4, (64,))), batch_size=16, shuffle=True)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-1)
for x, y in loader:
    optimizer.zero_grad()
    if len(x) > 4:
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 15.77 GiB of which 1.20 GiB is free.")
    nn.functional.cross_entropy(model(x), y).backward()
    optimizer.step()
print(json.dumps([p.double().flatten().tolist() for p in model.parameters()]))
