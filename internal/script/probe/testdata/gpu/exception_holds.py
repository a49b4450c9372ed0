"""The batch is halved inside the except block, where the traceback still holds the failed step's tensors."""
import torch
from torch import nn

torch.cuda.set_per_process_memory_fraction(6 * 2**30 / torch.cuda.get_device_properties(0).total_memory)
model = nn.Sequential(*[layer for _ in range(8) for layer in (nn.Linear(4096, 4096), nn.ReLU())]).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)


def step(batch):
    x = torch.randn(batch, 4096, device="cuda")
    hidden = model(x)
    extra = hidden * 2 + x
    loss = extra.pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()


def robust(batch):
    try:
        step(batch)
    except torch.cuda.OutOfMemoryError:
        robust(batch // 2)


step(256)
robust(32768)
