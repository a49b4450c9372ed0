"""A loop that accumulates over four batches, with its own division of the loss: 20 steps of SGD with momentum."""
import json

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

ACCUMULATE = 4

torch.manual_seed(2)
model = nn.Sequential(nn.Linear(12, 32), nn.ReLU(), nn.Linear(32, 1))
data = TensorDataset(torch.randn(320, 12), torch.randn(320, 1))
loader = DataLoader(data, batch_size=8, shuffle=True)
optimizer = torch.optim.SGD(model.parameters(), lr=5e-2, momentum=0.9)
loss_function = nn.MSELoss()
optimizer.zero_grad()
for epoch in range(2):
    for i, (x, y) in enumerate(loader):
        loss = loss_function(model(x), y) / ACCUMULATE
        loss.backward()
        if (i + 1) % ACCUMULATE == 0:
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
print(json.dumps([p.double().flatten().tolist() for p in model.parameters()]))
