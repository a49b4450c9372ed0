"""Functions and arguments; cuda is hard-coded, also in a tensor made by the step."""
import argparse

import torch
from torch import nn


def build(width):
    return nn.Sequential(nn.Embedding(100, width), nn.Flatten(), nn.Linear(8 * width, 1)).cuda()


def step(model, optimizer, batch):
    x = torch.randint(0, 100, (batch, 8), device="cuda:0")
    target = torch.zeros(batch, 1).cuda(non_blocking=True)
    loss = ((model(x) - target) ** 2).mean() + 1e-4 * sum(p.pow(2).sum() for p in model.parameters())
    loss.backward()
    norm = sum(p.grad.norm() for p in model.parameters())
    optimizer.step()
    optimizer.zero_grad()
    return loss.item() + float(norm)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--width", type=int, default=16)
    args = parser.parse_args()
    torch.cuda.set_device(0)
    print(torch.cuda.get_device_name(), torch.cuda.get_device_properties(0).total_memory > 0)
    model = build(args.width)
    optimizer = torch.optim.RMSprop(model.parameters(), foreach=False)
    for _ in range(3):
        print("loss", step(model, optimizer, args.batch))


main()
