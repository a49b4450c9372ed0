import torch
import torch.nn as nn
import torch.nn.functional as F


class Bank:
    def __init__(self, slots):
        self.slots, self.items, self.at = slots, [], 0

    def push(self, t):
        if len(self.items) < self.slots:
            self.items.append(t)
        else:
            self.items[self.at] = t
            self.at = (self.at + 1) % self.slots

    def all(self):
        return torch.cat(self.items)


f = nn.Sequential(nn.Linear(1024, 2048), nn.ReLU(), nn.Linear(2048, 512)).cuda()
opt = torch.optim.Adam(f.parameters(), 1e-4)
bank = Bank(32)
for i in range(100):
    x = torch.randn(4096, 1024, device="cuda")
    z = F.normalize(f(x), dim=1)
    bank.push(z.detach())
    sim = z[:512] @ bank.all().T
    loss = sim.logsumexp(1).mean() - (z[:512] * z[:512].detach()).sum(1).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
print(loss.item(), len(bank.items))
