import torch
import torch.nn as nn

ACCUMULATE = 16


class Block(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.n = nn.LayerNorm(d)
        self.f = nn.Sequential(nn.Linear(d, 4 * d), nn.GELU(), nn.Linear(4 * d, d))

    def forward(self, x):
        return x + self.f(self.n(x))


def epoch(model, opt, batches):
    total_loss = 0.0
    for i in range(batches):
        x = torch.randn(8, 512, 768, device="cuda")
        out = model(x)
        total_loss = total_loss + (out - x).pow(2).mean() / ACCUMULATE
        if (i + 1) % ACCUMULATE == 0:
            total_loss.backward()
            opt.step()
            opt.zero_grad()
            print("step", (i + 1) // ACCUMULATE, total_loss.item())
            total_loss = 0.0


model = nn.Sequential(*[Block(768) for _ in range(4)]).cuda()
epoch(model, torch.optim.AdamW(model.parameters(), 1e-4), 64)
