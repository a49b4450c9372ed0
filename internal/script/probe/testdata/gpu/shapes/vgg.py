"""Functions and arguments; the step is a function."""
import argparse

import torch
from torch import nn


def build(width):
    layers, channels = [], 3
    for i in range(4):
        layers += [nn.Conv2d(channels, width << i, 3, padding=1), nn.ReLU(inplace=True), nn.MaxPool2d(2)]
        channels = width << i
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, 100)).cuda()


def step(model, optimizer, batch):
    x, y = torch.randn(batch, 3, 128, 128, device="cuda"), torch.randint(0, 100, (batch,), device="cuda")
    loss = nn.functional.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.item()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch", type=int, default=128)
    model = build(64)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    for _ in range(3):
        step(model, optimizer, parser.parse_args().batch)


main()
