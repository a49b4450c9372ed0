import torch
import torch.nn as nn
import torch.nn.functional as F


def mlp(width, depth):
    mods = [nn.Linear(512, width), nn.ReLU()]
    for _ in range(depth):
        mods += [nn.Linear(width, width), nn.ReLU()]
    return nn.Sequential(*mods, nn.Linear(width, 100))


class Distiller:
    def __init__(self, T=4.0):
        self.teacher = mlp(2048, 10).cuda().eval()
        self.student = mlp(512, 3).cuda()
        self.opt = torch.optim.Adam(self.student.parameters(), 1e-3)
        self.T = T

    def step(self, x):
        t = self.teacher(x)
        s = self.student(x)
        loss = F.kl_div(F.log_softmax(s / self.T, -1), F.softmax(t / self.T, -1), reduction="batchmean")
        self.opt.zero_grad()
        loss.backward()
        self.opt.step()
        return loss.item()


d = Distiller()
for i in range(30):
    print(i, d.step(torch.randn(24000, 512, device="cuda")))
