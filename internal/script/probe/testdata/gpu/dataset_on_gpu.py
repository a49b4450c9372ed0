"""The Dataset moves every sample to the GPU when it is made."""
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

torch.cuda.set_per_process_memory_fraction(2 * 2**30 / torch.cuda.get_device_properties(0).total_memory)


class Images(Dataset):
    def __init__(self, n):
        self.samples = [torch.randn(3, 256, 256).cuda() for _ in range(n)]

    def __len__(self):
        return len(self.samples)

    def __getitem__(self, i):
        return self.samples[i], i % 10


model = nn.Sequential(nn.Conv2d(3, 64, 3, padding=1), nn.ReLU(), nn.Conv2d(64, 64, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10)).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for x, y in DataLoader(Images(2200), batch_size=8):
    loss = nn.functional.cross_entropy(model(x), y.cuda())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
