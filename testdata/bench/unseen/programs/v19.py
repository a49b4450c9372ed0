import torch
import torch.nn as nn


class Replay:
    def __init__(self, capacity, obs):
        self.obs = torch.zeros(capacity, obs, device="cuda")
        self.ret = torch.zeros(capacity, device="cuda")
        self.n, self.cap = 0, capacity

    def add(self, o, r):
        i = torch.arange(self.n, self.n + len(o), device="cuda") % self.cap
        self.obs[i], self.ret[i] = o, r
        self.n += len(o)

    def sample(self, k):
        i = torch.randint(0, min(self.n, self.cap), (k,), device="cuda")
        return self.obs[i], self.ret[i]


class Agent:
    def __init__(self):
        self.q = nn.Sequential(nn.Linear(512, 1024), nn.ReLU(), nn.Linear(1024, 1)).cuda()
        self.opt = torch.optim.Adam(self.q.parameters())
        self.buf = Replay(300_000, 512)

    def learn(self):
        o, r = self.buf.sample(2048)
        loss = (self.q(o).squeeze(-1) - r).pow(2).mean()
        self.opt.zero_grad()
        loss.backward()
        self.opt.step()
        return loss.item()


a = Agent()
for t in range(120):
    o = torch.randn(512, 512, device="cuda")
    a.buf.add(o, o.mean(1))
    l = a.learn()
print(l)
