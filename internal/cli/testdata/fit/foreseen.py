"""A transformer that asks for a GPU and makes do without: its peak is foreseen on a card that is not there. Prints its parameters after a few steps."""
import json
import os
import sys

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

if "CAP_MIB" in os.environ and torch.cuda.is_available():
    torch.cuda.set_per_process_memory_fraction(float(os.environ["CAP_MIB"]) * 2**20 / torch.cuda.get_device_properties(0).total_memory)


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm, self.mlp = nn.LayerNorm(width), nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x):
        return x + self.mlp(self.norm(x))


class Model(nn.Module):
    def __init__(self, width=128):
        super().__init__()
        self.embed, self.head = nn.Embedding(100, width), nn.Linear(width, 100)
        self.blocks = nn.ModuleList(Block(width) for _ in range(4))

    def forward(self, ids):
        x = self.embed(ids)
        for block in self.blocks:
            x = block(x)
        return self.head(x)


device = "cuda" if torch.cuda.is_available() else "cpu"
batch, length = int(sys.argv[1]), int(sys.argv[2])
torch.manual_seed(14)
print("model made", flush=True)
model = Model().to(device)
loader = DataLoader(TensorDataset(torch.randint(0, 100, (3 * batch, length + 1))), batch_size=batch, shuffle=True)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
for (ids,) in loader:
    ids = ids.to(device)
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten()).backward()
    optimizer.step()
print(json.dumps([p.double().flatten().tolist() for p in model.parameters()]))
