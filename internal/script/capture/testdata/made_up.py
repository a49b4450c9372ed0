"""A model whose path depends on values, which a capture does not have."""
import torch
from torch import nn


class Routed(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate, self.experts = nn.Linear(4, 3), nn.ModuleList(nn.Linear(4, 4) for _ in range(1))

    def forward(self, x):
        best = int(self.gate(x).sum(0).argmax())
        return self.experts[best](x)


net = Routed().cuda()
optimizer = torch.optim.Adam(net.parameters())
net(torch.randn(2, 4, device="cuda")).sum().backward()
optimizer.step()
