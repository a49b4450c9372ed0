"""An optimizer that calls the model itself, and a model that checkpoints its own blocks."""
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint


class Deep(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList(nn.Sequential(nn.Linear(16, 16), nn.Tanh()) for _ in range(3))

    def forward(self, x):
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False)
        return x


def closure():
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(model(x), x)
    loss.backward()
    return loss


model = Deep().double().to("cuda")
x = torch.randn(2, 16, dtype=torch.float64, device="cuda")
optimizer = torch.optim.LBFGS(model.parameters())
optimizer.step(closure)
