"""A small GPT in fp32 or under autocast: what its capture and its trace say must agree."""
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F

WIDTH, HEADS, TOKENS, VOCABULARY = 256, 4, 256, 4096


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2, self.drop = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH), nn.Dropout(0.1)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        batch, tokens, _ = x.shape
        q, k, v = (t.view(batch, tokens, HEADS, -1).transpose(1, 2) for t in self.qkv(self.norm1(x)).split(WIDTH, dim=2))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(batch, tokens, WIDTH)
        x = x + self.drop(self.out(y))
        return x + self.drop(self.down(F.gelu(self.up(self.norm2(x)))))


class GPT(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.places = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(TOKENS, WIDTH)
        self.blocks, self.norm, self.head = nn.ModuleList(Block() for _ in range(3)), nn.LayerNorm(WIDTH), nn.Linear(WIDTH, VOCABULARY, bias=False)
        self.head.weight = self.words.weight

    def forward(self, x, y):
        h = self.words(x) + self.places(torch.arange(x.shape[1], device=x.device))
        for block in self.blocks:
            h = block(h)
        logits = self.head(self.norm(h))
        return logits, F.cross_entropy(logits.view(-1, VOCABULARY), y.view(-1))


model = GPT().cuda()
optimizer = torch.optim.AdamW(model.parameters())
for _ in range(3):
    x, y = (torch.randint(0, VOCABULARY, (16, TOKENS)).cuda() for _ in range(2))
    with torch.autocast("cuda", dtype=torch.bfloat16, enabled=sys.argv[1] == "bf16"):
        logits, loss = model(x, y)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
