import torch
import torch.nn as nn

VOCAB = 151_936


class CoOccurrence:
    def __init__(self, size):
        self.counts = torch.zeros(size, size, device="cuda")

    def update(self, a, b):
        self.counts[a, b] += 1


emb = nn.Embedding(VOCAB, 256).cuda()
opt = torch.optim.SparseAdam(list(emb.parameters())) if emb.sparse else torch.optim.SGD(emb.parameters(), 0.1)
for i in range(5):
    ids = torch.randint(0, VOCAB, (4096,), device="cuda")
    loss = emb(ids).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
stats = CoOccurrence(VOCAB)
stats.update(ids[:-1], ids[1:])
print(stats.counts.sum())
