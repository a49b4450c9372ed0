import torch
import torch.nn as nn
import torch.nn.functional as F


class Layer(nn.Module):
    def __init__(self, d=1024, h=16):
        super().__init__()
        self.h, self.qkv, self.o = h, nn.Linear(d, 3 * d), nn.Linear(d, d)
        self.mlp = nn.Sequential(nn.LayerNorm(d), nn.Linear(d, 4 * d), nn.GELU(), nn.Linear(4 * d, d))

    def forward(self, x, past):
        B, T, C = x.shape
        q, k, v = (t.view(B, T, self.h, -1).transpose(1, 2) for t in self.qkv(x).chunk(3, -1))
        if past is not None:
            k, v = torch.cat([past[0], k], 2), torch.cat([past[1], v], 2)
        x = x + self.o(F.scaled_dot_product_attention(q, k, v, is_causal=past is None).transpose(1, 2).reshape(B, T, C))
        return x + self.mlp(x), (k, v)


@torch.inference_mode()
def main():
    emb, layers, head = nn.Embedding(10000, 1024).cuda(), nn.ModuleList(Layer() for _ in range(6)).cuda(), nn.Linear(1024, 10000).cuda()
    ids = torch.randint(0, 10000, (16, 64), device="cuda")
    past = [None] * 6
    cur = ids
    for _ in range(200):
        x = emb(cur)
        for i, l in enumerate(layers):
            x, past[i] = l(x, past[i])
        cur = head(x[:, -1:]).argmax(-1)
        ids = torch.cat([ids, cur], 1)
    print(ids.shape)


main()
