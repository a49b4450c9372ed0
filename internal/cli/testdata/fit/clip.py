"""Clipping, weight decay written by hand, and an average of the weights: 20 steps."""
import json

import torch
from torch import nn
from torch.nn.utils import clip_grad_norm_
from torch.optim.swa_utils import AveragedModel
from torch.utils.data import DataLoader, TensorDataset


def main():
    torch.manual_seed(5)
    model = nn.Sequential(nn.Linear(12, 32), nn.Tanh(), nn.Linear(32, 4))
    average = AveragedModel(model)
    data = TensorDataset(torch.randn(320, 12), torch.randint(0, 4, (320,)))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for x, y in DataLoader(data, batch_size=16, shuffle=True, drop_last=True):
        loss = nn.functional.cross_entropy(model(x), y)
        loss = loss + 1e-3 * sum(p.pow(2).sum() for p in model.parameters())
        model.zero_grad()
        loss.backward()
        clip_grad_norm_(model.parameters(), max_norm=0.1)
        optimizer.step()
        average.update_parameters(model)
    print(json.dumps([p.double().flatten().tolist() for m in (model, average) for p in m.parameters()]))


if __name__ == "__main__":
    main()
