"""No optimizer, an evaluation with a larger batch than training's, a checkpoint that is saved and loaded again, and a file that is overwritten."""
import sys

import torch
import torch.nn as nn

model = nn.Sequential(nn.Embedding(1000, 64), nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 1000)).cuda()
loss_of = nn.CrossEntropyLoss()
saved = sys.argv[1]


def evaluate(batch):
    model.eval()
    with torch.no_grad():
        for _ in range(3):
            x = torch.randint(0, 1000, (batch,)).cuda()
            print(loss_of(model(x), x).item())
    model.train()


for epoch in range(2):
    for _ in range(4):
        x = torch.randint(0, 1000, (32,)).cuda()
        model.zero_grad()
        loss_of(model(x), x).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.25)
        for p in model.parameters():
            p.data.add_(p.grad, alpha=-0.1)
    evaluate(8192)
    torch.save(model.state_dict(), saved)
    model.load_state_dict(torch.load(saved))
    with open(saved, "w") as f:
        f.write("overwritten")
