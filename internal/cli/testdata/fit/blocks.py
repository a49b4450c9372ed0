"""A small transformer; prints its gradients after one backward pass, then trains on for a few steps."""
import json

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm, self.attention = nn.LayerNorm(width), nn.MultiheadAttention(width, 4, dropout=0.1, batch_first=True)
        self.mlp = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x):
        y = self.norm(x)
        x = x + self.attention(y, y, y, need_weights=False)[0]
        return x + self.mlp(x)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(50, 32)
        self.blocks = nn.ModuleList(Block(32) for _ in range(3))
        self.head = nn.Linear(32, 50)

    def forward(self, ids):
        x = self.embed(ids)
        for block in self.blocks:
            x = block(x)
        return self.head(x)


torch.manual_seed(6)
model = Model()
loader = DataLoader(TensorDataset(torch.randint(0, 50, (32, 10))), batch_size=8)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
first = None
for (ids,) in loader:
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(ids)[:, :-1].flatten(0, 1), ids[:, 1:].flatten())
    loss.backward()
    first = first or [p.grad.double().flatten().tolist() for p in model.parameters()]
    optimizer.step()
print(json.dumps(first + [p.double().flatten().tolist() for p in model.parameters()]))
