import torch
from torch import nn
from torch.utils.checkpoint import checkpoint


class FeedForward(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.norm = nn.LayerNorm(d)
        self.up, self.down = nn.Linear(d, 4 * d), nn.Linear(4 * d, d)

    def forward(self, x):
        return x + self.down(nn.functional.gelu(self.up(self.norm(x))))


class Encoder(nn.Module):
    def __init__(self, d=512, n=16, use_checkpoint=True):
        super().__init__()
        self.blocks = nn.Sequential(*[FeedForward(d) for _ in range(n)])
        self.use_checkpoint = use_checkpoint

    def forward(self, x):
        if self.use_checkpoint and self.training:
            return checkpoint(self.blocks, x, use_reentrant=False)
        return self.blocks(x)


enc = Encoder().cuda()
head = nn.Linear(512, 128).cuda()
opt = torch.optim.AdamW([*enc.parameters(), *head.parameters()], 1e-4)
for step in range(10):
    x = torch.randn(16, 1024, 512, device="cuda")
    loss = head(enc(x)).square().mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(step, loss.item())
