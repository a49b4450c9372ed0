"""A small language model without dropout, `fit_capped.py [BATCH LENGTH]`; `CAP_GIB` limits its memory. Prints the loss of every step it takes itself."""
import json
import os
import sys

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

if "CAP_GIB" in os.environ:
    torch.cuda.set_per_process_memory_fraction(float(os.environ["CAP_GIB"]) * 2**30 / torch.cuda.get_device_properties(0).total_memory)


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x):
        b, s, w = x.shape
        q, k, v = self.qkv(self.first(x)).view(b, s, 3, self.heads, w // self.heads).permute(2, 0, 3, 1, 4)
        x = x + self.out(nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(b, s, w))
        return x + self.mlp(self.second(x))


class Model(nn.Module):
    def __init__(self, vocabulary=8192, width=512, layers=8):
        super().__init__()
        self.embed = nn.Embedding(vocabulary, width)
        self.blocks = nn.ModuleList(Block(width, 8) for _ in range(layers))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, vocabulary)

    def forward(self, ids):
        x = self.embed(ids)
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


def main(batch=64, length=512):
    torch.manual_seed(0)
    model = Model().cuda()
    text = torch.randint(0, 64, (10 * batch, length + 1))  # few tokens, so that the loss falls
    loader = DataLoader(TensorDataset(text), batch_size=batch, shuffle=True)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 2 * len(loader))
    losses = []
    for epoch in range(2):
        for (ids,) in loader:
            ids = ids.cuda()
            loss = nn.functional.cross_entropy(model(ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten())
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            losses.append(loss.item())
    print(json.dumps(losses))


main(*map(int, sys.argv[1:]))
