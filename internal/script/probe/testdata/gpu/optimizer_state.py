"""Forward and backward fit; Adam's state, made by the first step, does not."""
import torch
from torch import nn

torch.cuda.set_per_process_memory_fraction(5 * 2**30 / torch.cuda.get_device_properties(0).total_memory)
model = nn.Sequential(*[nn.Linear(8192, 8192) for _ in range(8)]).cuda()
optimizer = torch.optim.Adam(model.parameters())
for step in range(3):
    loss = model(torch.randn(8, 8192, device="cuda")).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
