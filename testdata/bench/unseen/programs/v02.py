import torch
import torch.nn as nn

SIZES = [3_000_000, 2_500_000, 2_000_000, 1_500_000, 800_000]


class DLRM(nn.Module):
    def __init__(self, sizes, dim=128):
        super().__init__()
        self.tables = nn.ModuleList([nn.EmbeddingBag(n, dim, mode="sum", device="cuda") for n in sizes])
        self.top = nn.Sequential(nn.Linear(dim * len(sizes), 256), nn.ReLU(), nn.Linear(256, 1)).cuda()

    def forward(self, idx):
        return self.top(torch.cat([t(i) for t, i in zip(self.tables, idx)], 1))


model = DLRM(SIZES)
opt = torch.optim.Adagrad(model.parameters(), 0.01)
for _ in range(3):
    idx = [torch.randint(0, n, (2048, 4), device="cuda") for n in SIZES]
    loss = model(idx).sigmoid().mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
