import torch
import torch.nn as nn
import torch.nn.functional as F
from collections import defaultdict


class Denoiser(nn.Module):
    def __init__(self, ch=64):
        super().__init__()
        self.t = nn.Embedding(1000, ch)
        self.inp = nn.Conv2d(4, ch, 3, padding=1)
        self.blocks = nn.ModuleList([nn.Sequential(nn.GroupNorm(8, ch), nn.SiLU(), nn.Conv2d(ch, ch, 3, padding=1)) for _ in range(4)])
        self.out = nn.Conv2d(ch, 4, 3, padding=1)

    def forward(self, x, t):
        h = self.inp(x) + self.t(t)[:, :, None, None]
        for b in self.blocks:
            h = h + b(h)
        return self.out(h)


class DiffusionTrainer:
    def __init__(self):
        self.net = Denoiser().to("cuda")
        self.opt = torch.optim.AdamW(self.net.parameters(), 1e-4)
        self.abar = torch.linspace(0.999, 0.01, 1000, device="cuda")
        self.stats = defaultdict(lambda: 0.0)

    def step(self, x0, i):
        t = torch.randint(0, 1000, (x0.shape[0],), device="cuda")
        noise = torch.randn_like(x0)
        a = self.abar[t][:, None, None, None]
        pred = self.net(a.sqrt() * x0 + (1 - a).sqrt() * noise, t)
        loss = F.mse_loss(pred, noise)
        self.opt.zero_grad()
        loss.backward(retain_graph=True)
        self.opt.step()
        self.stats[i % 10] += loss
        return loss.item()

    def run(self, steps=200):
        for i in range(steps):
            l = self.step(torch.randn(32, 4, 64, 64, device="cuda"), i)
            if i % 10 == 0:
                print(i, l)


DiffusionTrainer().run()
