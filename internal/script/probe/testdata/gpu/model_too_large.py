"""The parameters alone do not fit."""
import torch
from torch import nn

torch.cuda.set_per_process_memory_fraction(4 * 2**30 / torch.cuda.get_device_properties(0).total_memory)
with torch.device("cuda"):
    model = nn.ModuleList(nn.Linear(8192, 8192) for _ in range(40))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
optimizer.step()
