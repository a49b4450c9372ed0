"""An adaptive softmax, whose clusters have as many rows as values say, and a mask whose values are known through a cast."""
import torch
from torch import nn

model = nn.AdaptiveLogSoftmaxWithLoss(64, 2000, [100, 1000]).cuda()
optimizer = torch.optim.SGD(model.parameters(), 0.1)
mask = torch.ones(8, 16, dtype=torch.long).cuda().to(device="cuda", dtype=torch.bool)
if not mask.all():
    raise SystemExit("a mask of ones is not known to be true throughout")
for _ in range(2):
    loss = model(torch.randn(512, 64, device="cuda"), torch.randint(0, 2000, (512,), device="cuda")).loss
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
