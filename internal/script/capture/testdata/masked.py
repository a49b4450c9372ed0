"""Sizes that depend on data: tokens chosen by a mask, and a loop that asks for values."""
import torch
import torch.nn as nn

model = nn.Sequential(nn.Embedding(100, 128), nn.Linear(128, 100)).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for i in range(3):
    x = torch.randint(0, 100, (16, 64)).cuda()
    chosen = x % 7 == 0
    logits = model(x)[chosen]
    rows = torch.nonzero(chosen)
    loss = nn.functional.cross_entropy(logits, x[chosen]) + 0 * rows.sum()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    if loss.item() > 1e9:
        break
