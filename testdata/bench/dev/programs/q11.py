import torch
import torch.nn as nn


class Attention(nn.Module):
    def __init__(self, dim, heads=6):
        super().__init__()
        self.heads = heads
        self.scale = (dim // heads) ** -0.5
        self.qkv = nn.Linear(dim, dim * 3)
        self.drop = nn.Dropout(0.1)
        self.proj = nn.Linear(dim, dim)

    def forward(self, x):
        B, N, C = x.shape
        q, k, v = self.qkv(x).reshape(B, N, 3, self.heads, C // self.heads).permute(2, 0, 3, 1, 4)
        attn = (q @ k.transpose(-2, -1)) * self.scale
        attn = attn.softmax(dim=-1)
        attn = self.drop(attn)
        return self.proj((attn @ v).transpose(1, 2).reshape(B, N, C))


class ViT(nn.Module):
    def __init__(self, dim=192, depth=6, patch=8, size=512):
        super().__init__()
        self.patch = nn.Conv2d(3, dim, patch, patch)
        self.pos = nn.Parameter(torch.zeros(1, (size // patch) ** 2, dim))
        self.blocks = nn.ModuleList(nn.ModuleList([nn.LayerNorm(dim), Attention(dim), nn.LayerNorm(dim), nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))]) for _ in range(depth))
        self.head = nn.Linear(dim, 1000)

    def forward(self, x):
        x = self.patch(x).flatten(2).transpose(1, 2) + self.pos
        for n1, att, n2, mlp in self.blocks:
            x = x + att(n1(x))
            x = x + mlp(n2(x))
        return self.head(x.mean(1))


vit = ViT().cuda()
opt = torch.optim.AdamW(vit.parameters(), 3e-4)
for i in range(10):
    img, lab = torch.rand(1, 3, 512, 512, device="cuda"), torch.randint(0, 1000, (1,), device="cuda")
    loss = nn.functional.cross_entropy(vit(img), lab)
    opt.zero_grad(); loss.backward(); opt.step()
    print(i, loss.item())
