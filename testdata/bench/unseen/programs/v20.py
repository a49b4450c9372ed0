import torch
import torch.nn as nn


class MoE(nn.Module):
    def __init__(self, d=1024, experts=24):
        super().__init__()
        self.gate = nn.Linear(d, experts)
        self.experts = nn.ModuleList(nn.Sequential(nn.Linear(d, 4 * d), nn.ReLU(), nn.Linear(4 * d, d)) for _ in range(experts))

    def forward(self, x):
        w = self.gate(x).softmax(-1)
        return sum(w[:, i:i + 1] * e(x) for i, e in enumerate(self.experts))


def main():
    model = MoE().cuda()
    opt = torch.optim.Adam(model.parameters(), lr=2e-4)
    for step in range(100):
        x = torch.randn(64, 1024, device="cuda")
        loss = nn.functional.mse_loss(model(x), x)
        loss.backward()
        opt.step()
        opt.zero_grad()
        print(step, loss.item())


if __name__ == "__main__":
    main()
