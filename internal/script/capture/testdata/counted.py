"""Counts the batches that an iterator has left, and begins a new one when there are none, as programs do that train for so many iterations."""
import torch
from torch.utils.data import DataLoader, TensorDataset

device = "cuda"
model = torch.nn.Linear(16, 4).to(device)
optimizer = torch.optim.Adam(model.parameters())
data = TensorDataset(torch.zeros(240, 16), torch.zeros(240, dtype=torch.int64))
left = 1
for iteration in range(30):
    left -= 1
    if left == 0:
        batches = iter(DataLoader(data, batch_size=20))
        left = len(batches)
        assert left == 12
    x, y = next(batches)
    loss = torch.nn.functional.cross_entropy(model(x.to(device)), y.to(device))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
