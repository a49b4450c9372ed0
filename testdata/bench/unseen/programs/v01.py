import torch
import torch.nn as nn

pending = []


def later(fn):
    pending.append(fn)


class VAE(nn.Module):
    def __init__(self, c=32):
        super().__init__()
        self.e = nn.Sequential(nn.Conv2d(3, c, 3, 2, 1), nn.SiLU(), nn.Conv2d(c, 2 * c, 3, 2, 1), nn.SiLU())
        self.mu, self.lv = nn.Conv2d(2 * c, 8, 1), nn.Conv2d(2 * c, 8, 1)
        self.d = nn.Sequential(nn.ConvTranspose2d(8, 2 * c, 4, 2, 1), nn.SiLU(), nn.ConvTranspose2d(2 * c, c, 4, 2, 1), nn.SiLU(), nn.Conv2d(c, 3, 1))

    def forward(self, x):
        h = self.e(x)
        mu, lv = self.mu(h), self.lv(h)
        z = mu + torch.randn_like(mu) * (0.5 * lv).exp()
        return self.d(z), mu, lv


def log_image(step, image):
    def write():
        return step, image.clamp(0, 1).mean().item()
    later(write)


vae = VAE().cuda()
opt = torch.optim.Adam(vae.parameters(), 2e-4)
for step in range(150):
    x = torch.rand(48, 3, 128, 128, device="cuda")
    rec, mu, lv = vae(x)
    kl = -0.5 * (1 + lv - mu.pow(2) - lv.exp()).mean()
    loss = (rec - x).abs().mean() + 1e-3 * kl
    loss.backward()
    opt.step()
    opt.zero_grad()
    log_image(step, rec)
for job in pending:
    print(*job())
