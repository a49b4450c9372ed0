"""NumPy's float64 finds its way into the model."""
import numpy
import torch
from torch import nn

torch.cuda.set_per_process_memory_fraction(3 * 2**30 / torch.cuda.get_device_properties(0).total_memory)
model = nn.Sequential(nn.Linear(1024, 4096), nn.ReLU(), nn.Linear(4096, 4096), nn.ReLU(), nn.Linear(4096, 10)).double().cuda()
optimizer = torch.optim.Adam(model.parameters())
data = torch.from_numpy(numpy.random.rand(16384, 1024)).cuda()
for step in range(10):
    loss = model(data).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
