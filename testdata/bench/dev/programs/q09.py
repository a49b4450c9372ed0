import torch
import torch.nn as nn
import torch.nn.functional as F


def conv(i, o):
    return nn.Sequential(nn.Conv3d(i, o, 3, padding=1), nn.InstanceNorm3d(o), nn.LeakyReLU(0.1),
                         nn.Conv3d(o, o, 3, padding=1), nn.InstanceNorm3d(o), nn.LeakyReLU(0.1))


class UNet3D(nn.Module):
    def __init__(self, c=16):
        super().__init__()
        self.d1, self.d2, self.d3 = conv(1, c), conv(c, 2 * c), conv(2 * c, 4 * c)
        self.u2, self.u1 = conv(6 * c, 2 * c), conv(3 * c, c)
        self.out = nn.Conv3d(c, 3, 1)

    def forward(self, x):
        a = self.d1(x)
        b = self.d2(F.max_pool3d(a, 2))
        c = self.d3(F.max_pool3d(b, 2))
        b = self.u2(torch.cat([F.interpolate(c, scale_factor=2), b], 1))
        a = self.u1(torch.cat([F.interpolate(b, scale_factor=2), a], 1))
        return self.out(a)


net = UNet3D().cuda()
opt = torch.optim.Adam(net.parameters(), 1e-3)
for step in range(5):
    vol = torch.randn(8, 1, 96, 96, 96, device="cuda")
    seg = torch.randint(0, 3, (8, 96, 96, 96), device="cuda")
    loss = F.cross_entropy(net(vol), seg)
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(step, loss.item())
