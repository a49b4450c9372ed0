import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class ResBlock(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.c1, self.c2 = nn.Conv2d(c, c, 3, padding=1), nn.Conv2d(c, c, 3, padding=1)
        self.b1, self.b2 = nn.BatchNorm2d(c), nn.BatchNorm2d(c)

    def forward(self, x):
        y = torch.relu(self.b1(self.c1(x)))
        return torch.relu(x + self.b2(self.c2(y)))


class Experiment:
    def __init__(self):
        self.device = "cuda"
        self.model = nn.Sequential(nn.Conv2d(3, 64, 3, padding=1), ResBlock(64), ResBlock(64), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 100)).to(self.device)
        self.optim = torch.optim.SGD(self.model.parameters(), lr=0.05)
        self.crit = nn.CrossEntropyLoss()
        self.train_dl = DataLoader(TensorDataset(torch.randn(640, 3, 32, 32), torch.randint(0, 100, (640,))), 64)
        self.val_dl = DataLoader(TensorDataset(torch.randn(8000, 3, 32, 32), torch.randint(0, 100, (8000,))), 64)

    def train_epoch(self):
        self.model.train()
        for x, y in self.train_dl:
            x, y = x.to(self.device), y.to(self.device)
            loss = self.crit(self.model(x), y)
            self.optim.zero_grad()
            loss.backward()
            self.optim.step()

    def validate(self):
        self.model.eval()
        preds, labels = [], []
        for x, y in self.val_dl:
            preds.append(self.model(x.to(self.device)))
            labels.append(y)
        return (torch.cat(preds).argmax(1).cpu() == torch.cat(labels)).float().mean().item()

    def fit(self, epochs=2):
        for e in range(epochs):
            self.train_epoch()
            print("epoch", e, "val acc", self.validate())


Experiment().fit()
