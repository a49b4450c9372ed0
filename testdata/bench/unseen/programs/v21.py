import torch
import torch.nn as nn

gen = nn.Sequential(nn.Linear(100, 1024), nn.ReLU(), nn.Linear(1024, 3072), nn.Tanh()).cuda()
dis = nn.Sequential(nn.Linear(3072, 1024), nn.LeakyReLU(0.2), nn.Linear(1024, 1)).cuda()
og, od = torch.optim.Adam(gen.parameters(), 2e-4), torch.optim.Adam(dis.parameters(), 2e-4)
bce = nn.BCEWithLogitsLoss()
g_losses, d_losses = [], []
for it in range(60):
    real = torch.rand(2048, 3072, device="cuda")
    z = torch.randn(2048, 100, device="cuda")
    fake = gen(z)
    one, zero = torch.ones(2048, 1, device="cuda"), torch.zeros(2048, 1, device="cuda")
    loss_d = bce(dis(real), one) + bce(dis(fake), zero)
    od.zero_grad()
    loss_d.backward(retain_graph=True, inputs=list(dis.parameters()))
    loss_g = bce(dis(fake), one)
    og.zero_grad()
    loss_g.backward(inputs=list(gen.parameters()))
    od.step(); og.step()
    g_losses.append(loss_g.item()); d_losses.append(loss_d.item())
print(sum(g_losses), sum(d_losses))
