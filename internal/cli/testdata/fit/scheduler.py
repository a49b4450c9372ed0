"""One scheduler stepped with every batch, sized by the length of the loader, and one stepped with every epoch; dict batches."""
import json

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Points(Dataset):
    def __init__(self):
        self.x, self.y = torch.randn(160, 12), torch.randn(160, 2)

    def __len__(self):
        return len(self.x)

    def __getitem__(self, i):
        return {"x": self.x[i], "y": self.y[i], "name": f"point {i}"}


def train():
    torch.manual_seed(4)
    model = nn.Sequential(nn.Linear(12, 32), nn.SiLU(), nn.Linear(32, 2))
    loader = DataLoader(Points(), batch_size=16, shuffle=True)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    warm = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=2e-2, total_steps=2 * len(loader))
    held_out = DataLoader(Points(), batch_size=20)
    for epoch in range(2):
        model.train()
        for batch in loader:
            loss = ((model(batch["x"]) - batch["y"]) ** 2).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            warm.step()
        model.eval()
        sizes = [len(batch["name"]) for batch in held_out]
        assert sizes == [20] * 8, sizes
    return model, optimizer


model, optimizer = train()
print(json.dumps([p.double().flatten().tolist() for p in model.parameters()] + [[optimizer.param_groups[0]["lr"]]]))
