"""Sequences of ever new lengths leave holes that no later request fits into."""
import random

import torch
from torch import nn

torch.cuda.set_per_process_memory_fraction(2.5 * 2**30 / torch.cuda.get_device_properties(0).total_memory)
random.seed(1)
width, kept = 1024, []
model = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
length = 2000
for step in range(400):
    length += 37
    x = torch.randn(length, width, device="cuda")
    loss = model(x).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    kept.append(torch.empty(random.randrange(1, 3) * 2**20, device="cuda"))  # small blocks that pin larger segments
    if len(kept) > 60:
        kept.pop(random.randrange(len(kept)))
