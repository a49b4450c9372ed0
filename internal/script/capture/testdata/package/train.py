"""Launched with -m, with relative imports."""
import torch

from .model import make


def main():
    model = make().cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, foreach=True)
    x = torch.randn(5, 10, 32, device="cuda")
    loss = model(x).abs().mean()
    loss.backward()
    optimizer.step()


if __name__ == "__main__":
    main()
