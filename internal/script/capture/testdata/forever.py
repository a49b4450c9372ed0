"""A loader whose sampler repeats for ever: each pass takes as many batches from the one iterator as it says it has."""
import torch
from torch.utils.data import DataLoader, TensorDataset


class Forever:
    def __init__(self, sampler):
        self.sampler = sampler

    def __iter__(self):
        while True:
            yield from self.sampler


class Endless(DataLoader):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        object.__setattr__(self, "batch_sampler", Forever(self.batch_sampler))
        self.iterator = super().__iter__()

    def __len__(self):
        return len(self.batch_sampler.sampler)

    def __iter__(self):
        for _ in range(len(self)):
            yield next(self.iterator)


model = torch.nn.Linear(64, 64).cuda()
optimizer = torch.optim.Adam(model.parameters())
for epoch in range(2):
    for (x,) in Endless(TensorDataset(torch.randn(64, 64)), batch_size=8):
        model(x.cuda()).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
