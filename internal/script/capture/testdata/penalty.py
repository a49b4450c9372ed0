"""A gradient penalty: the loss of the critic contains gradients, so that backward runs through backward."""
import torch
import torch.nn as nn

critic = nn.Sequential(nn.Linear(256, 512), nn.LeakyReLU(0.2), nn.Linear(512, 1)).cuda()
maker = nn.Sequential(nn.Linear(32, 256), nn.Tanh()).cuda()
steps = [torch.optim.Adam(m.parameters(), lr=1e-4) for m in (critic, maker)]
for i in range(4):
    real = torch.randn(64, 256).cuda()
    fake = maker(torch.randn(64, 32, device="cuda"))
    mixed = (real + fake.detach()).requires_grad_(True)
    slopes = torch.autograd.grad(critic(mixed).sum(), mixed, create_graph=True)[0]
    steps[0].zero_grad()
    (critic(fake.detach()).mean() - critic(real).mean() + ((slopes.norm(2, dim=1) - 1) ** 2).mean()).backward()
    steps[0].step()
    steps[1].zero_grad()
    (-critic(fake).mean()).backward()
    steps[1].step()
