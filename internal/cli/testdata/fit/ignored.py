"""Sequences padded to one length: parts of a batch hold unequal numbers of targets. 20 steps under each of the losses named on the command line."""
import json
import sys

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

LOSSES = {
    "ignore": lambda out, y: nn.functional.cross_entropy(out.transpose(1, 2), y),
    "smoothed": lambda out, y: nn.functional.cross_entropy(out.flatten(0, 1), y.flatten(), label_smoothing=0.1),
    "weighted": lambda out, y: nn.functional.cross_entropy(out.flatten(0, 1), y.flatten(), weight=torch.tensor([0.2, 1.0, 3.0, 0.5, 1.0])),
    "masked": lambda out, y: (each(out, y) * (y != -100)).sum() / (y != -100).sum(),
    "indexed": lambda out, y: each(out, y)[y != -100].mean(),
    "batchmean": lambda out, y: each(out, y).sum() / len(y),
    "constant": lambda out, y: each(out, y).sum() / 37,
    "summed": lambda out, y: each(out, y).sum(),
    "listed": lambda out, y: torch.stack([LOSSES["ignore"](out, y), LOSSES["masked"](out, y)]).sum(),
    "root": lambda out, y: LOSSES["ignore"](out, y).sqrt(),
    "two counts": lambda out, y: LOSSES["ignore"](out, y) + out.pow(2).mean(),
    "mean within": lambda out, y: each(out, y).mean(0).sum(),
}


def each(out, y):
    return nn.functional.cross_entropy(out.transpose(1, 2), y, reduction="none")


def train(loss_of):
    torch.manual_seed(12)
    model = nn.Sequential(nn.Embedding(20, 16), nn.Linear(16, 16), nn.Tanh(), nn.Linear(16, 5))
    x, y, length = torch.randint(0, 20, (160, 9)), torch.randint(0, 5, (160, 9)), torch.Generator().manual_seed(3)
    for row in y:
        row[int(torch.randint(0, 10, (), generator=length)):] = -100
    loader = DataLoader(TensorDataset(x, y), batch_size=16, shuffle=True)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-2, momentum=0.9)
    for epoch in range(2):
        for x, y in loader:
            optimizer.zero_grad()
            loss_of(model(x), y).backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
    return [p.double().flatten().tolist() for p in model.parameters()]


print(json.dumps([p for name in sys.argv[1].split(",") for p in train(LOSSES[name])]))
