"""A trainer class: fp16 autocast, a gradient scaler, accumulation over two batches."""
import torch
from torch import nn


class Trainer:
    def __init__(self):
        self.model = nn.Sequential(*[layer for _ in range(6) for layer in (nn.Linear(4096, 4096), nn.GELU(), nn.LayerNorm(4096))]).cuda()
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-4, fused=True)
        self.scaler = torch.amp.GradScaler("cuda", init_scale=128.0)

    def run(self, steps):
        for i in range(2 * steps):
            x = torch.randn(8192, 4096, device="cuda")
            with torch.autocast("cuda", dtype=torch.float16):
                loss = nn.functional.mse_loss(self.model(x), x) / 2
            self.scaler.scale(loss).backward()
            if i % 2:
                self.scaler.step(self.optimizer)
                self.scaler.update()
                self.optimizer.zero_grad()


if __name__ == "__main__":
    Trainer().run(3)
