import itertools
import torch
import torch.nn as nn


def build_model(width, depth):
    layers = [nn.Linear(128, width)]
    for _ in range(depth):
        layers += [nn.ReLU(), nn.Linear(width, width)]
    return nn.Sequential(*layers, nn.Linear(width, 1))


def objective(width, depth, lr):
    model = build_model(width, depth).cuda()
    opt = torch.optim.Adam(model.parameters(), lr=lr)
    for _ in range(10):
        x = torch.randn(512, 128, device="cuda")
        loss = (model(x) - x.mean(1, keepdim=True)).pow(2).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
    return {"loss": loss.item(), "model": model, "opt": opt}


results = {}
for width, depth, lr in itertools.product([2048, 3072], [3, 4], [1e-3, 3e-4, 1e-4]):
    results[(width, depth, lr)] = objective(width, depth, lr)
    print(width, depth, lr, results[(width, depth, lr)]["loss"], flush=True)
winner = min(results, key=lambda k: results[k]["loss"])
print("winner", winner)
