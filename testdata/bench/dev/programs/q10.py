import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(0)
N, E = 200_000, 1_200_000
edges = torch.randint(0, N, (2, E), device="cuda")
x = torch.randn(N, 64, device="cuda")
y = torch.randint(0, 16, (N,), device="cuda")


class SAGE(nn.Module):
    def __init__(self, din, dout):
        super().__init__()
        self.own = nn.Linear(din, dout)
        self.nb = nn.Linear(din, dout)

    def forward(self, h, ei):
        agg = torch.zeros_like(h).index_add_(0, ei[1], h[ei[0]])
        return self.own(h) + self.nb(agg)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.c1, self.c2 = SAGE(64, 128), SAGE(128, 64)
        self.cls = nn.Linear(64, 16)

    def forward(self, h, ei):
        h = F.relu(self.c1(h, ei))
        z = self.c2(h, ei)
        return self.cls(F.relu(z)), z


model = Net().cuda()
opt = torch.optim.Adam(model.parameters(), lr=0.01)
embeddings_per_epoch = {}
for epoch in range(1, 201):
    model.train()
    opt.zero_grad()
    out, z = model(x, edges)
    loss = F.cross_entropy(out, y)
    loss.backward()
    opt.step()
    embeddings_per_epoch[epoch] = z.detach()
    if epoch % 20 == 0:
        print(f"Epoch {epoch:03d} loss {loss:.4f}")
torch.save(embeddings_per_epoch, "/tmp/z.pt")
