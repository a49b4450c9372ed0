import torch, torch.nn as nn, torch.nn.functional as F

D, H, SEG, B = 512, 8, 256, 16


class XLLayer(nn.Module):
    def __init__(self):
        super().__init__()
        self.q = nn.Linear(D, D); self.kv = nn.Linear(D, 2 * D); self.o = nn.Linear(D, D)
        self.ff = nn.Sequential(nn.Linear(D, 4 * D), nn.GELU(), nn.Linear(4 * D, D))
        self.n1, self.n2 = nn.LayerNorm(D), nn.LayerNorm(D)

    def forward(self, h, mem):
        ctx = h if mem is None else torch.cat([mem, h], 1)
        q = self.q(self.n1(h)).view(B, -1, H, D // H).transpose(1, 2)
        k, v = self.kv(self.n1(ctx)).chunk(2, -1)
        k = k.view(B, -1, H, D // H).transpose(1, 2); v = v.view(B, -1, H, D // H).transpose(1, 2)
        h = h + self.o(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))
        return h + self.ff(self.n2(h))


emb = nn.Embedding(5000, D).cuda()
layers = nn.ModuleList(XLLayer() for _ in range(4)).cuda()
head = nn.Linear(D, 5000).cuda()
params = [*emb.parameters(), *layers.parameters(), *head.parameters()]
opt = torch.optim.AdamW(params, lr=1e-4)
mems = [None] * 4
for step in range(200):
    ids = torch.randint(0, 5000, (B, SEG + 1)).cuda()
    h = emb(ids[:, :-1])
    new = []
    for layer, mem in zip(layers, mems):
        new.append(h.detach() if mem is None else torch.cat([mem, h.detach()], 1))
        h = layer(h, mem)
    mems = new
    loss = F.cross_entropy(head(h).flatten(0, 1), ids[:, 1:].flatten())
    opt.zero_grad(); loss.backward(); opt.step()
    if step % 10 == 0: print(step, loss.item())
