"""A loop that accumulates over two batches of padded sequences, each averaged over its own number of targets: 20 steps."""
import json

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(13)
model = nn.Sequential(nn.Embedding(20, 16), nn.Linear(16, 16), nn.Tanh(), nn.Linear(16, 5))
x, y = torch.randint(0, 20, (320, 9)), torch.randint(0, 5, (320, 9))
for i, row in enumerate(y):
    row[1 + i * 7 % 9:] = -100
loader = DataLoader(TensorDataset(x, y), batch_size=16, shuffle=True)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
for epoch in range(2):
    for i, (x, y) in enumerate(loader):
        loss = nn.functional.cross_entropy(model(x).transpose(1, 2), y) / 2
        loss.backward()
        if (i + 1) % 2 == 0:
            optimizer.step()
            optimizer.zero_grad()
print(json.dumps([p.double().flatten().tolist() for p in model.parameters()]))
