import torch
import torch.nn as nn


class Features(nn.Module):
    """One embedding table for each categorical column."""

    def __init__(self, columns, rows, d):
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(rows, d) for _ in range(columns))
        self.out = nn.Linear(d, 1)

    def forward(self, idx):
        return self.out(sum(t(idx[:, k]) for k, t in enumerate(self.tables))).squeeze(-1)


rec = Features(14, 50_000, 320).cuda()
opt = torch.optim.AdamW(rec.parameters(), lr=0.01)
bce = nn.BCEWithLogitsLoss()
for step in range(20):
    idx = torch.randint(0, 50_000, (8192, 14), device="cuda")
    loss = bce(rec(idx), torch.ones(8192, device="cuda"))
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(step, loss.item())
