import torch
import torch.nn as nn


class Depth(nn.Module):
    def __init__(self, c=48):
        super().__init__()
        self.stem = nn.Conv2d(3, c, 3, padding=1)
        self.mid = nn.ModuleList([nn.Conv2d(c, c, 3, padding=1) for _ in range(6)])
        self.heads = nn.ModuleList([nn.Conv2d(c, 1, 1) for _ in range(6)])

    def forward(self, x):
        x = torch.relu(self.stem(x))
        outs = []
        for m, h in zip(self.mid, self.heads):
            x = torch.relu(m(x)) + x
            outs.append(h(x))
        return outs


net = Depth().cuda()
opt = torch.optim.Adam(net.parameters(), 1e-4)
out = None
for step in range(12):
    img = torch.rand(10, 3, 256, 256, device="cuda")
    gt = torch.rand(10, 1, 256, 256, device="cuda")
    out = net(img)
    loss = sum((o - gt).abs().mean() for o in out)
    if step % 2 == 0:
        smooth = sum((o[..., 1:] - o[..., :-1]).abs().mean() for o in out)
        opt.zero_grad()
        (loss + smooth).backward(retain_graph=True)
    else:
        opt.zero_grad()
        loss.backward(retain_graph=True)
    opt.step()
    print(step, loss.item())
