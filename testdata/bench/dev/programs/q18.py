import torch
import torch.nn as nn


class EWC:
    """Elastic weight consolidation."""

    def __init__(self, model, strength=0.4):
        self.model = model
        self.strength = strength
        self.anchor = {n: p.detach().clone() for n, p in model.named_parameters()}
        self.fisher = {n: torch.rand_like(p) for n, p in model.named_parameters()}
        self.penalty = 0

    def __call__(self):
        for n, p in self.model.named_parameters():
            diff = p - self.anchor[n]
            self.penalty = self.penalty + self.strength * (self.fisher[n] * diff * diff).sum()
        return self.penalty


def train():
    net = nn.Sequential(nn.Linear(1024, 2048), nn.Tanh(), nn.Linear(2048, 2048), nn.Tanh(), nn.Linear(2048, 10)).cuda()
    ewc = EWC(net)
    sgd = torch.optim.SGD(net.parameters(), lr=1e-6)
    ce = nn.CrossEntropyLoss()
    for i in range(500):
        x, y = torch.randn(256, 1024).cuda(), torch.randint(0, 10, (256,)).cuda()
        loss = ce(net(x), y) + 0.001 * ewc()
        sgd.zero_grad()
        loss.backward(retain_graph=True)
        with torch.no_grad():
            for p in net.parameters():
                p.data.add_(p.grad.data, alpha=-1e-6)


train()
