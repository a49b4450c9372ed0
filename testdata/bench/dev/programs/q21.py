import torch
import torch.nn as nn
from torch.utils.data import Dataset, DataLoader


class Photos(Dataset):
    def __init__(self, n, device):
        self.images = []
        self.labels = []
        for i in range(n):
            self.images.append(torch.rand(3, 224, 224).to(device))
            self.labels.append(i % 10)

    def __len__(self):
        return len(self.images)

    def __getitem__(self, i):
        return self.images[i], self.labels[i]


device = torch.device("cuda")
train = Photos(3000, device)
loader = DataLoader(train, batch_size=64, shuffle=True)
net = nn.Sequential(nn.Conv2d(3, 32, 3, 2, 1), nn.ReLU(), nn.Conv2d(32, 64, 3, 2, 1), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10)).to(device)
opt = torch.optim.SGD(net.parameters(), lr=0.01)
for epoch in range(2):
    for x, y in loader:
        y = y.to(device)
        loss = nn.functional.cross_entropy(net(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
    print(epoch, loss.item())
