import torch
import torch.nn as nn
import torch.nn.functional as F


class TabTransformer(nn.Module):
    def __init__(self, d=1536):
        super().__init__()
        self.proj = nn.Linear(64, d)
        self.stack = nn.ModuleList([nn.Linear(d, d) for _ in range(24)])
        self.out = nn.Linear(d, 2)

    def forward(self, x):
        x = self.proj(x)
        for m in self.stack:
            x = F.leaky_relu(m(x)) + x
        return self.out(x)


net = TabTransformer().cuda()
optimizer = torch.optim.AdamW(net.parameters(), lr=1e-4, foreach=False)
for it in range(10):
    x = torch.randn(6500, 64, device="cuda")
    y = torch.randint(0, 2, (6500,), device="cuda")
    loss = F.cross_entropy(net(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(it, loss.item())
