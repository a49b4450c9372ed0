import random
import torch
import torch.nn as nn
import torch.nn.functional as F

random.seed(0)
N = 300_000
feat = torch.randn(N, 128, device="cuda")
label = torch.randint(0, 40, (N,), device="cuda")


class Conv(nn.Module):
    def __init__(self, i, o):
        super().__init__()
        self.lin = nn.Linear(2 * i, o)

    def forward(self, x, src, dst, n):
        agg = torch.zeros(n, x.shape[1], device=x.device).index_add(0, dst, x[src])
        return self.lin(torch.cat([x[:n], agg], 1))


l1, l2 = Conv(128, 256).cuda(), Conv(256, 40).cuda()
opt = torch.optim.Adam([*l1.parameters(), *l2.parameters()], 3e-3)
for b in range(60):
    n0, n1, n2 = random.randint(60_000, 120_000), random.randint(15_000, 30_000), 1024
    nodes = torch.randint(0, N, (n0,), device="cuda")
    s1, d1 = torch.randint(0, n0, (8 * n1,), device="cuda"), torch.randint(0, n1, (8 * n1,), device="cuda")
    s2, d2 = torch.randint(0, n1, (8 * n2,), device="cuda"), torch.randint(0, n2, (8 * n2,), device="cuda")
    h = F.relu(l1(feat[nodes], s1, d1, n1))
    out = l2(h, s2, d2, n2)
    loss = F.cross_entropy(out, label[nodes[:n2]])
    opt.zero_grad()
    loss.backward()
    opt.step()
print(loss.item())
