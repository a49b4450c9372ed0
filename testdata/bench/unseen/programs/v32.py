import torch
import torch.nn as nn
import torch.nn.functional as F

x_all = torch.rand(20000, 784, device="cuda")
y_all = torch.randint(0, 10, (20000,), device="cuda")
model = nn.Sequential(nn.Linear(784, 4096), nn.ReLU(), nn.Linear(4096, 4096), nn.ReLU(), nn.Linear(4096, 4096), nn.ReLU(), nn.Linear(4096, 10)).cuda()
opt = torch.optim.AdamW(model.parameters())
log = []
for epoch in range(3):
    for idx in torch.randperm(20000).split(1000):
        idx = idx.cuda()
        loss = F.cross_entropy(model(x_all[idx]), y_all[idx])
        opt.zero_grad()
        loss.backward()
        opt.step()
        log.append(loss.item())
    with torch.no_grad():
        acc = (model(x_all).argmax(1) == y_all).float().mean()
    print(epoch, acc.item())
