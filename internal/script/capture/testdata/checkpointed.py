"""Checkpointed functions: a closure over a block, a bound method that is part of a block's forward, and a stretch of a Sequential; both kinds of checkpoint."""
import sys

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint, checkpoint_sequential

reentrant = sys.argv[1:] == ["reentrant"]


class Block(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(dim), nn.Linear(dim, 4 * dim), nn.Linear(4 * dim, dim)

    def inner(self, x):
        return self.down(nn.functional.gelu(self.up(x)))

    def forward(self, x):
        return x + checkpoint(self.inner, self.norm(x), use_reentrant=reentrant)


class Net(nn.Module):
    def __init__(self, dim=32):
        super().__init__()
        self.embed = nn.Linear(8, dim)
        self.blocks = nn.ModuleList(Block(dim) for _ in range(2))
        self.closed = nn.ModuleList(nn.Sequential(nn.Linear(dim, dim), nn.Tanh()) for _ in range(2))
        self.tail = nn.Sequential(*(m for _ in range(4) for m in (nn.Linear(dim, dim), nn.ReLU())))

    def forward(self, x):
        x = self.embed(x)
        for block in self.blocks:
            x = block(x)
        for layer in self.closed:
            def run(y, layer=layer):
                return layer(y) * 0.5 + y
            x = checkpoint(run, x, use_reentrant=reentrant)
        return checkpoint_sequential(self.tail, 2, x, use_reentrant=reentrant)


net = Net().cuda()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(3):
    x = torch.randn(6, 10, 8).cuda()
    loss = net(x).pow(2).mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    print("trained")
