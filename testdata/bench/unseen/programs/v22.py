import numpy as np
import torch
import torch.nn as nn

rng = np.random.default_rng(0)
inputs = rng.normal(size=(4096, 32, 64))
targets = rng.normal(size=(4096, 1))


class Forecaster(nn.Module):
    def __init__(self, hidden=512):
        super().__init__()
        self.lstm = nn.LSTM(64, hidden, 2, batch_first=True)
        self.out = nn.Linear(hidden, 1)

    def forward(self, x):
        h, _ = self.lstm(x)
        return self.out(h[:, -1])


model = Forecaster().double().cuda()
opt = torch.optim.Adam(model.parameters())
for epoch in range(3):
    for k in range(0, 4096, 2048):
        x = torch.from_numpy(inputs[k:k + 2048]).cuda()
        y = torch.from_numpy(targets[k:k + 2048]).cuda()
        loss = nn.functional.mse_loss(model(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
    print(epoch, loss.item())
