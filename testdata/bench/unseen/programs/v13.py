import torch
import torch.nn as nn
import torch.nn.functional as F


class Robust:
    def __init__(self):
        c = lambda i, o, s: nn.Sequential(nn.Conv2d(i, o, 3, s, 1), nn.BatchNorm2d(o), nn.ReLU())
        self.net = nn.Sequential(c(3, 64, 1), c(64, 128, 2), c(128, 128, 1), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(128, 10)).cuda()
        self.opt = torch.optim.SGD(self.net.parameters(), 0.1, momentum=0.9)

    def attack(self, x, y, eps=8 / 255, steps=5):
        d = torch.zeros_like(x).uniform_(-eps, eps)
        for _ in range(steps):
            d.requires_grad_(True)
            g, = torch.autograd.grad(F.cross_entropy(self.net(x + d), y), d)
            d = (d.detach() + eps / 4 * g.sign()).clamp(-eps, eps)
        return (x + d).detach()

    def fit(self, steps):
        losses = []
        for _ in range(steps):
            x, y = torch.rand(128, 3, 32, 32, device="cuda"), torch.randint(0, 10, (128,), device="cuda")
            adv = self.attack(x, y)
            loss = F.cross_entropy(self.net(adv), y) + 0.5 * F.cross_entropy(self.net(x), y)
            self.opt.zero_grad()
            loss.backward()
            self.opt.step()
            losses.append(loss.detach())
        return torch.stack(losses).mean().item()


print(Robust().fit(30))
