import torch
from torch import nn


class ConvNet(nn.Module):
    def __init__(self, classes=10):
        super().__init__()
        chans = [3, 128, 256, 512, 1024]
        self.features = nn.Sequential(*[l for a, b in zip(chans, chans[1:]) for l in (nn.Conv2d(a, b, 3, 2, 1), nn.BatchNorm2d(b), nn.ReLU())])
        self.fc = nn.Sequential(nn.Flatten(), nn.Linear(1024 * 4, 2048), nn.ReLU(), nn.Linear(2048, classes))

    def forward(self, x):
        return self.fc(self.features(x))


class SWA:
    def __init__(self):
        self.snapshots = []

    def collect(self, model):
        self.snapshots.append({k: v.detach().clone() for k, v in model.state_dict().items()})

    def average(self):
        keys = self.snapshots[0].keys()
        return {k: torch.stack([s[k].float() for s in self.snapshots]).mean(0) for k in keys}


net, swa = ConvNet().cuda(), SWA()
opt = torch.optim.SGD(net.parameters(), 0.01, momentum=0.9)
for epoch in range(40):
    for _ in range(5):
        x, y = torch.randn(64, 3, 32, 32, device="cuda"), torch.randint(0, 10, (64,), device="cuda")
        loss = nn.functional.cross_entropy(net(x), y)
        opt.zero_grad(); loss.backward(); opt.step()
    swa.collect(net)
    print(epoch, loss.item())
net.load_state_dict(swa.average())
