import torch
import torch.nn as nn
from torch.nn import functional as F


class Head(nn.Module):
    def __init__(self, d, h):
        super().__init__()
        self.qkv, self.proj, self.h = nn.Linear(d, 3 * d), nn.Linear(d, d), h

    def forward(self, x):
        B, T, C = x.shape
        q, k, v = (t.view(B, T, self.h, -1).transpose(1, 2) for t in self.qkv(x).chunk(3, -1))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.proj(y.transpose(1, 2).reshape(B, T, C))


class GPT(nn.Module):
    def __init__(self, vocab=8000, d=512, n=4):
        super().__init__()
        self.tok, self.pos = nn.Embedding(vocab, d), nn.Embedding(1024, d)
        self.att = nn.ModuleList(Head(d, 8) for _ in range(n))
        self.mlp = nn.ModuleList(nn.Sequential(nn.LayerNorm(d), nn.Linear(d, 4 * d), nn.GELU(), nn.Linear(4 * d, d)) for _ in range(n))
        self.out = nn.Linear(d, vocab)

    def forward(self, idx):
        x = self.tok(idx) + self.pos(torch.arange(idx.shape[1], device=idx.device))
        for a, m in zip(self.att, self.mlp):
            x = x + a(x)
            x = x + m(x)
        return self.out(x)


def generate(model, idx, n):
    logprobs = []
    for _ in range(n):
        logits = model(idx)[:, -1]
        p = F.log_softmax(logits, -1)
        nxt = torch.multinomial(p.exp(), 1)
        logprobs.append(p.gather(1, nxt))
        idx = torch.cat([idx, nxt], 1)
    return idx, torch.cat(logprobs, 1)


model = GPT().cuda().eval()
prompt = torch.randint(0, 8000, (8, 128), device="cuda")
text, lp = generate(model, prompt, 400)
print(text.shape, lp.exp().mean().item())
