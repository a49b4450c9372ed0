"""A denoising diffusion loop: buffers indexed by random timesteps, noise made on the card, EMA of the weights with deepcopy, Adam, a progress value in float()."""
from copy import deepcopy

import torch
from torch import nn
from torch.nn import functional as F


def extract(a, t, x_shape):
    return a.gather(-1, t).reshape(t.shape[0], *((1,) * (len(x_shape) - 1)))


class Unet(nn.Module):
    def __init__(self, dim=8):
        super().__init__()
        self.time = nn.Sequential(nn.Linear(1, dim), nn.SiLU(), nn.Linear(dim, dim))
        self.inc, self.down, self.up, self.out = nn.Conv2d(1, dim, 3, padding=1), nn.Conv2d(dim, dim * 2, 4, 2, 1), nn.ConvTranspose2d(dim * 2, dim, 4, 2, 1), nn.Conv2d(dim * 2, 1, 1)
        self.norm = nn.GroupNorm(4, dim)

    def forward(self, x, t):
        h = F.silu(self.norm(self.inc(x)) + self.time(t.float()[:, None] / 100)[:, :, None, None])
        return self.out(torch.cat((self.up(F.silu(self.down(h))), h), dim=1))


class Diffusion(nn.Module):
    def __init__(self, model, timesteps=100):
        super().__init__()
        self.model = model
        bars = torch.cumprod(1.0 - torch.linspace(1e-4, 0.02, timesteps), dim=0)
        self.register_buffer("root", torch.sqrt(bars))
        self.register_buffer("rest", torch.sqrt(1.0 - bars))

    @property
    def device(self):
        return self.root.device

    def forward(self, img):
        t = torch.randint(0, len(self.root), (img.shape[0],), device=self.device).long()
        noise = torch.randn_like(img)
        x = extract(self.root, t, img.shape) * img + extract(self.rest, t, img.shape) * noise
        return F.mse_loss(self.model(x, t), noise)


diffusion = Diffusion(Unet()).to("cuda" if torch.cuda.is_available() else "cpu")
ema = deepcopy(diffusion)
optimizer = torch.optim.Adam(diffusion.parameters(), lr=8e-5, betas=(0.9, 0.99))
loader = torch.utils.data.DataLoader(torch.rand(30, 1, 16, 16), batch_size=10, shuffle=True, pin_memory=True)
cycle = iter(loader)
for step in range(3):
    total_loss = 0.0
    for _ in range(2):
        data = next(cycle).to(diffusion.device)
        loss = diffusion(data) / 2
        total_loss += loss.item()
        loss.backward()
    torch.nn.utils.clip_grad_norm_(diffusion.parameters(), 1.0)
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    optimizer.step()
    optimizer.zero_grad()
    with torch.no_grad():
        for a, b in zip(ema.parameters(), diffusion.parameters()):
            a.lerp_(b, 0.005)
    print("trained", total_loss)
