"""WGAN-GP on random images."""
import torch
from torch import nn, autograd

dev = "cuda"
G = nn.Sequential(nn.Linear(128, 8 * 8 * 256), nn.Unflatten(1, (256, 8, 8)), nn.ReLU(),
                  nn.ConvTranspose2d(256, 128, 4, 2, 1), nn.ReLU(), nn.ConvTranspose2d(128, 64, 4, 2, 1), nn.ReLU(),
                  nn.ConvTranspose2d(64, 3, 4, 2, 1), nn.Tanh()).to(dev)
D = nn.Sequential(nn.Conv2d(3, 64, 4, 2, 1), nn.LeakyReLU(0.2), nn.Conv2d(64, 128, 4, 2, 1), nn.LeakyReLU(0.2),
                  nn.Conv2d(128, 256, 4, 2, 1), nn.LeakyReLU(0.2), nn.Flatten(), nn.Linear(256 * 8 * 8, 1)).to(dev)
opt_g = torch.optim.Adam(G.parameters(), lr=1e-4, betas=(0.5, 0.9))
opt_d = torch.optim.Adam(D.parameters(), lr=1e-4, betas=(0.5, 0.9))


def gradient_penalty(real, fake):
    eps = torch.rand(real.size(0), 1, 1, 1, device=dev)
    mixed = (eps * real + (1 - eps) * fake).requires_grad_(True)
    score = D(mixed)
    grad = autograd.grad(score, mixed, torch.ones_like(score), create_graph=True, retain_graph=True)[0]
    return ((grad.flatten(1).norm(2, dim=1) - 1) ** 2).mean()


running_d = 0.0
for it in range(300):
    real = torch.rand(128, 3, 64, 64, device=dev) * 2 - 1
    fake = G(torch.randn(128, 128, device=dev)).detach()
    d_loss = D(fake).mean() - D(real).mean() + 10 * gradient_penalty(real, fake)
    opt_d.zero_grad()
    d_loss.backward(retain_graph=True)
    opt_d.step()
    running_d += d_loss
    if it % 5 == 4:
        g_loss = -D(G(torch.randn(128, 128, device=dev))).mean()
        opt_g.zero_grad()
        g_loss.backward()
        opt_g.step()
        print(it, "running loss", float(running_d) / (it + 1))
