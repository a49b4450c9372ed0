"""Features of many samples, of which one in three is kept: each pins a segment of which two thirds are free and of no use to the training that follows."""
import torch
from torch import nn

torch.cuda.set_per_process_memory_fraction(2.25 * 2**30 / torch.cuda.get_device_properties(0).total_memory)
width = 1024
encoder = nn.Linear(width, width).cuda()
model = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
with torch.no_grad():
    features = [encoder(torch.randn(1536, width, device="cuda")) for _ in range(300)]  # 6 MiB each, three to a segment of 20 MiB
features = features[::3]
for step in range(10):
    x = torch.randn(16384, width, device="cuda")
    loss = model(x).pow(2).mean()  # activations of 256 MiB
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
