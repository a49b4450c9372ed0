import torch
import torch.nn as nn


class Wide(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(1024, 1024) for _ in range(24)])

    def forward(self, x):
        for layer in self.layers:
            x = torch.nn.functional.gelu(layer(x))
        return x


def step(model, opt, x):
    opt.zero_grad()
    loss = model(x).pow(2).mean()
    loss.backward()
    opt.step()
    return loss.item()


def robust_step(model, opt, n):
    x = torch.randn(n, 1024, device="cuda")
    try:
        return step(model, opt, x)
    except torch.cuda.OutOfMemoryError:
        if n < 3000:
            raise
        print("out of memory with", n, "trying", n * 3 // 4)
        torch.cuda.empty_cache()
        return robust_step(model, opt, n * 3 // 4)


model = Wide().cuda()
opt = torch.optim.Adam(model.parameters(), 1e-4)
for i in range(10):
    print(i, robust_step(model, opt, 24000))
