"""argparse and a config file; a Trainer class with callbacks; evaluation before training; torch.compile by decorator and by method; a resumed checkpoint."""
import argparse
import json
import os
import random
from dataclasses import dataclass, field

import numpy as np
import torch
import torch.nn as nn


@dataclass
class Config:
    width: int = 24
    depth: int = 3
    batch_size: int = 4
    optimizer: dict = field(default_factory=lambda: {"name": "AdamW", "lr": 1e-3})
    precision: str = "bf16"
    accumulate: int = 2


class Residual(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.body = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, width), nn.SiLU())

    def forward(self, x):
        return x + self.body(x)


class Model(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.stem = nn.Linear(10, config.width)
        self.blocks = nn.ModuleList([Residual(config.width) for _ in range(config.depth)])
        self.head = nn.Linear(config.width, 1)

    def forward(self, x):
        x = self.stem(x)
        for b in self.blocks:
            x = b(x)
        return self.head(x).squeeze(-1)


class Callback:
    def on_step(self, trainer, loss):
        trainer.log.append(loss.detach())


class Trainer:
    def __init__(self, config, callbacks=()):
        self.config, self.callbacks, self.log, self.step = config, callbacks, [], 0
        self.device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", 0))) if torch.cuda.is_available() else torch.device("cpu")
        self.generator = torch.Generator(device=self.device).manual_seed(0)
        self.model = Model(config).to(self.device)
        self.model.compile(mode="max-autotune")
        self.optimizer = getattr(torch.optim, config.optimizer["name"])(self.model.parameters(), lr=config.optimizer["lr"], fused=True)
        self.scheduler = torch.optim.lr_scheduler.LambdaLR(self.optimizer, lambda s: min(1.0, s / 10))
        self.dtype = {"bf16": torch.bfloat16, "fp32": None}[config.precision]

    def batches(self, n):
        for _ in range(n):
            x = torch.randn(self.config.batch_size, 10, device=self.device, generator=self.generator)
            yield x, x.sum(-1)

    @torch.inference_mode()
    def evaluate(self):
        self.model.eval()
        losses = [self.loss(x, y).item() for x, y in self.batches(2)]
        self.model.train()
        return sum(losses) / len(losses)

    @torch.compile
    def loss(self, x, y):
        with torch.autocast(self.device.type, dtype=self.dtype, enabled=self.dtype is not None):
            return nn.functional.huber_loss(self.model(x), y)

    def fit(self):
        print("before", self.evaluate())
        accumulated = 0
        for i, (x, y) in enumerate(self.batches(8)):
            loss = self.loss(x, y) / self.config.accumulate
            loss.backward()
            accumulated += loss.item()
            if (i + 1) % self.config.accumulate:
                continue
            self.optimizer.step()
            self.scheduler.step()
            self.optimizer.zero_grad()
            for callback in self.callbacks:
                callback.on_step(self, loss)
            print("trained", accumulated)


def seed(n):
    random.seed(n), np.random.seed(n), torch.manual_seed(n), torch.cuda.manual_seed_all(n)
    torch.backends.cudnn.deterministic, torch.backends.cudnn.benchmark = True, False


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--config", required=True)
    parser.add_argument("--batch-size", type=int)
    args = parser.parse_args()
    with open(args.config) as f:
        config = Config(**json.load(f))
    if args.batch_size:
        config.batch_size = args.batch_size
    seed(1)
    Trainer(config, [Callback()]).fit()
