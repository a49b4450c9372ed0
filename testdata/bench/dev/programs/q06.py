import torch
import torch.nn as nn

num_nodes = 40000
src = torch.randint(0, num_nodes, (300000,))
dst = torch.randint(0, num_nodes, (300000,))
features = torch.randn(num_nodes, 100).cuda()


class GCN(nn.Module):
    def __init__(self, i, h, o):
        super().__init__()
        self.w1 = nn.Linear(i, h, bias=False)
        self.w2 = nn.Linear(h, o, bias=False)

    def forward(self, x, a):
        return a @ self.w2(torch.relu(a @ self.w1(x)))


adj = torch.zeros(num_nodes, num_nodes, device="cuda")
adj[src.cuda(), dst.cuda()] = 1.0
adj = adj + torch.eye(num_nodes, device="cuda")
deg = adj.sum(1)
adj = adj / deg[:, None]
gcn = GCN(100, 64, 7).cuda()
opt = torch.optim.Adam(gcn.parameters(), lr=0.01)
labels = torch.randint(0, 7, (num_nodes,), device="cuda")
for e in range(20):
    opt.zero_grad()
    loss = nn.functional.cross_entropy(gcn(features, adj), labels)
    loss.backward()
    opt.step()
    print(e, loss.item())
