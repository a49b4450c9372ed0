import torch


def validate(model, loader, criterion):
    model.eval()
    total = 0.0
    for x, y in loader:
        total += criterion(model(x), y)
    return total / len(loader)


def train(model, loader, criterion, optimizer, every=4):
    for i, (x, y) in enumerate(loader):
        optimizer.zero_grad()
        loss = criterion(model(x), y) / every
        loss.backward()
        if (i + 1) % every == 0 or i + 1 == len(loader):
            optimizer.step()
