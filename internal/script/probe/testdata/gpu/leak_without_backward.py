"""A validation loop outside no_grad adds losses up: every graph stays alive."""
import torch
from torch import nn

torch.cuda.set_per_process_memory_fraction(3 * 2**30 / torch.cuda.get_device_properties(0).total_memory)
model = nn.Sequential(nn.Linear(1024, 4096), nn.GELU(), nn.Linear(4096, 4096), nn.GELU(), nn.Linear(4096, 10)).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)


def batch():
    return torch.randn(512, 1024, device="cuda"), torch.randint(0, 10, (512,), device="cuda")


def train(steps):
    model.train()
    for _ in range(steps):
        x, y = batch()
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()


def evaluate(batches):
    model.eval()
    total = 0
    for _ in range(batches):
        x, y = batch()
        total += nn.functional.cross_entropy(model(x), y)
    return total


train(5)
print(evaluate(500))
