import math
import torch
import torch.nn as nn


class Net(nn.Module):
    def __init__(self, c=96):
        super().__init__()
        self.i = nn.Conv2d(3, c, 3, padding=1)
        self.m = nn.ModuleList(nn.Conv2d(c, c, 3, padding=1) for _ in range(5))
        self.o = nn.Conv2d(c, 3, 3, padding=1)

    def forward(self, x, s):
        h = self.i(x) * (1 + math.sin(s))
        for conv in self.m:
            h = h + nn.functional.silu(conv(h))
        return self.o(h)


class DDIMSampler(object):
    def __init__(self, model, steps=50):
        self.model = model
        self.steps = steps

    def sample(self, n, size):
        x = torch.randn(n, 3, size, size, device="cuda")
        frames = [x]
        for k in range(self.steps):
            eps = self.model(x, k / self.steps)
            x = x - eps / self.steps
            frames.append(x)
        return frames


unet = Net().cuda()
frames = DDIMSampler(unet).sample(16, 128)
print(len(frames), frames[-1].std())
