import torch
import torch.nn as nn


class FPNish(nn.Module):
    def __init__(self):
        super().__init__()
        self.c1 = nn.Sequential(nn.Conv2d(3, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU())
        self.c2 = nn.Sequential(nn.Conv2d(32, 64, 3, 2, 1), nn.BatchNorm2d(64), nn.ReLU())
        self.c3 = nn.Sequential(nn.Conv2d(64, 128, 3, 2, 1), nn.BatchNorm2d(128), nn.ReLU())
        self.cls = nn.Conv2d(128, 9, 1)

    def forward(self, x):
        x = self.c1(x)
        x = self.c2(x)
        return self.cls(self.c3(x))


def images():
    g = torch.Generator().manual_seed(3)
    for i in range(60):
        h = int(torch.randint(440, 520, (1,), generator=g)) if i != 31 else 3000
        w = int(torch.randint(600, 680, (1,), generator=g)) if i != 31 else 4000
        yield torch.rand(1, 3, h, w)


net = FPNish().cuda()
opt = torch.optim.SGD(net.parameters(), 0.01)
for n, img in enumerate(images()):
    img = img.cuda()
    out = net(img)
    loss = out.pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(n, tuple(img.shape), loss.item())
