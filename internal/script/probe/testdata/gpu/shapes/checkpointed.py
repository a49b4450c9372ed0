"""A model that checkpoints its own blocks; foreach off."""
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint


class Deep(nn.Module):
    def __init__(self, width=4096, depth=6):
        super().__init__()
        self.blocks = nn.ModuleList(nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width)) for _ in range(depth))

    def forward(self, x):
        for block in self.blocks:
            x = x + checkpoint(block, x, use_reentrant=False)
        return x


model = Deep().cuda()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-4, foreach=False)
for _ in range(3):
    x = torch.randn(4096, 4096, device="cuda")
    loss = model(x).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
