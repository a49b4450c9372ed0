"""A sampler that follows the training: a split must leave this script alone."""
import json

import torch
from torch import nn
from torch.utils.data import DataLoader, Sampler, TensorDataset


class Hardest(Sampler):
    def __init__(self, losses):
        self.losses = losses

    def __len__(self):
        return len(self.losses)

    def __iter__(self):
        return iter(torch.argsort(self.losses, descending=True).tolist())


torch.manual_seed(8)
model = nn.Linear(12, 4)
data, losses = TensorDataset(torch.randn(64, 12), torch.randint(0, 4, (64,)), torch.arange(64)), torch.zeros(64)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-1)
for epoch in range(2):
    for x, y, i in DataLoader(data, batch_size=16, sampler=Hardest(losses)):
        optimizer.zero_grad()
        each = nn.functional.cross_entropy(model(x), y, reduction="none")
        losses[i] = each.detach()
        each.mean().backward()
        optimizer.step()
print(json.dumps([p.double().flatten().tolist() for p in model.parameters()]))
