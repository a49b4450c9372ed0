import torch, torch.nn as nn

X = torch.randn(60000, 256); Y = X[:, :8].sum(1, keepdim=True)
Xv = torch.randn(30000, 256).cuda(); Yv = Xv[:, :8].sum(1, keepdim=True)

mlp = nn.Sequential(nn.Linear(256, 2048), nn.Tanh(), nn.Dropout(0.1), nn.Linear(2048, 2048), nn.Tanh(), nn.Dropout(0.1),
                    nn.Linear(2048, 2048), nn.Tanh(), nn.Dropout(0.1), nn.Linear(2048, 2048), nn.Tanh(), nn.Dropout(0.1),
                    nn.Linear(2048, 2048), nn.Tanh(), nn.Dropout(0.1), nn.Linear(2048, 2048), nn.Tanh(), nn.Linear(2048, 1)).cuda()
opt = torch.optim.Adam(mlp.parameters(), lr=3e-4)
loss_fn = nn.MSELoss()

for epoch in range(3):
    perm = torch.randperm(len(X))
    for i in range(0, len(X), 2000):
        idx = perm[i:i + 2000]
        xb, yb = X[idx].cuda(), Y[idx].cuda()
        opt.zero_grad()
        loss = loss_fn(mlp(xb), yb)
        loss.backward()
        opt.step()
    mlp.eval()
    val_out = mlp(Xv)
    print("epoch", epoch, "train", loss.item(), "valid", loss_fn(val_out, Yv).item())
    mlp.train()
