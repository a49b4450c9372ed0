"""Draws its batches itself, as nanoGPT does. Prints its parameters after a few steps. The argument says what the model does with its batch."""
import json
import sys

import torch
from torch import nn

kind = sys.argv[1] if len(sys.argv) > 1 else "outside"
torch.manual_seed(3)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.hidden, self.head = nn.Embedding(50, 16), nn.Linear(16, 32), nn.Linear(32, 50)
        self.drop = nn.Dropout(0.5 if kind == "dropout" else 0.0)
        self.norm = nn.BatchNorm1d(32) if kind == "norm" else None
        self.blocks = nn.ModuleList(nn.Sequential(nn.LayerNorm(32), nn.Linear(32, 32)) for _ in range(2 if kind == "blocks" else 0))

    def forward(self, ids, targets=None):
        x = self.drop(torch.tanh(self.hidden(self.embed(ids))))
        if self.norm is not None:
            x = self.norm(x.transpose(1, 2)).transpose(1, 2)
        if kind == "mixes":
            x = x - x.mean(0)
        for block in self.blocks:
            x = x + block(x)
        logits = self.head(x)
        if targets is None:
            return logits
        how = "sum" if kind == "summed" else "mean"
        return {"logits": logits, "loss": nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=-1, reduction=how)}


model = Model()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01 if kind == "summed" else 0.1, momentum=0.9)
data = torch.randint(0, 50, (4000,))
for step in range(4):
    at = torch.randint(0, 3000, (10,)).tolist()
    x, y = torch.stack([data[i:i + 8] for i in at]), torch.stack([data[i + 1:i + 9] for i in at])
    if kind == "ignored":
        y[:, 5:] = -1
    if kind == "oom" and step == 0:
        call = model.hidden.forward

        def forward(value):
            if len(value) > 3:
                raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 15.77 GiB of which 1.20 GiB is free.")
            return call(value)

        model.hidden.forward = forward
    optimizer.zero_grad()
    if kind in ("outside", "dropout", "norm", "mixes", "oom", "blocks"):
        nn.functional.cross_entropy(model(x).flatten(0, 1), y.flatten()).backward()
    else:
        model(x, targets=y)["loss"].backward()
    optimizer.step()
print(json.dumps([p.double().flatten().tolist() for p in model.parameters()]))
