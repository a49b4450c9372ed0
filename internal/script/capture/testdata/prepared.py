"""Keeps prepared data as a pickle, which PyTorch would refuse to read again, and saves its model before it trains."""
import os
import sys

import torch


class Corpus:
    rows = 64


kept, saved = os.path.join(sys.argv[1], "corpus.data"), os.path.join(sys.argv[1], "init.pt")
if os.path.exists(kept):
    corpus = torch.load(kept)
else:
    corpus = Corpus()
    torch.save(corpus, kept)
model = torch.nn.Linear(1024, 1024).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
torch.save(model, saved)
torch.save([model, {"optimizer": optimizer.state_dict()}], saved)
assert os.path.isfile(saved)
for _ in range(3):
    model(torch.randn(corpus.rows, 1024, device="cuda")).pow(2).mean().backward()
    optimizer.step()
