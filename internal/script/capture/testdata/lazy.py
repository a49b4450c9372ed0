"""Lazy modules: the model goes to the card before its parameters have shapes, and the optimizer has them already."""
import torch
from torch import nn

model = nn.Sequential(nn.LazyConv2d(16, 3), nn.LazyBatchNorm2d(), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.LazyLinear(64), nn.ReLU(), nn.LazyLinear(10)).to("cuda")
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
for _ in range(3):
    x, y = torch.randn(32, 3, 32, 32).cuda(), torch.randint(0, 10, (32,)).cuda()
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
with torch.no_grad():
    print(model(torch.randn(8, 3, 32, 32, device="cuda")).argmax(1).tolist())
