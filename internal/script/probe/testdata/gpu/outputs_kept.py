"""Predictions of every batch are collected on the GPU."""
import torch
from torch import nn

torch.cuda.set_per_process_memory_fraction(2 * 2**30 / torch.cuda.get_device_properties(0).total_memory)
model = nn.Sequential(nn.Linear(512, 1024), nn.ReLU(), nn.Linear(1024, 8192)).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
predictions = []
for step in range(2000):
    x, y = torch.randn(256, 512, device="cuda"), torch.randint(0, 8192, (256,), device="cuda")
    out = model(x)
    loss = nn.functional.cross_entropy(out, y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    predictions.append(out.detach())
