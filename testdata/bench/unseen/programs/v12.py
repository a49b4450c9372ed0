import torch
from torch import nn, optim


class MMDLoss(nn.Module):
    def __init__(self, scales=(1.0, 2.0, 4.0)):
        super().__init__()
        self.scales = scales

    def forward(self, source, target):
        total = torch.cat([source, target], dim=0)
        d2 = ((total.unsqueeze(0) - total.unsqueeze(1)) ** 2).sum(2)
        k = sum(torch.exp(-d2 / s) for s in self.scales)
        n = source.size(0)
        return k[:n, :n].mean() + k[n:, n:].mean() - 2 * k[:n, n:].mean()


encoder = nn.Sequential(nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 256)).cuda()
mmd = MMDLoss()
optimizer = optim.Adam(encoder.parameters())
for step in range(50):
    batch = 64 if step < 25 else 768
    s, t = torch.randn(batch, 512).cuda(), torch.randn(batch, 512).cuda() + 0.5
    loss = mmd(encoder(s), encoder(t))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(loss)
