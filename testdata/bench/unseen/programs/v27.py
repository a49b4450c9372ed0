import torch
import torch.nn as nn
from accelerate import Accelerator

acc = Accelerator()
net = nn.Sequential(nn.Conv2d(3, 32, 3, 2, 1), nn.ReLU(), nn.Conv2d(32, 21, 1), nn.Upsample(scale_factor=2))
opt = torch.optim.AdamW(net.parameters())
net, opt = acc.prepare(net, opt)
for epoch in range(2):
    net.train()
    for _ in range(8):
        x = torch.rand(8, 3, 256, 256, device=acc.device)
        y = torch.randint(0, 21, (8, 256, 256), device=acc.device)
        loss = nn.functional.cross_entropy(net(x), y)
        acc.backward(loss)
        opt.step()
        opt.zero_grad()
    net.eval()
    outs = []
    with torch.no_grad():
        for _ in range(24):
            p = net(torch.rand(16, 3, 256, 256, device=acc.device)).softmax(1)
            outs.append(acc.gather_for_metrics(p).half().cpu())
    acc.print(epoch, torch.cat(outs).float().mean().item())
