"""An IterableDataset of sentences of different lengths, padded by collate_fn, into an LSTM; a loss that ignores padding; fp16 by the old names."""
import random

import torch
import torch.nn as nn
from torch.cuda.amp import GradScaler, autocast
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader, IterableDataset


class Stream(IterableDataset):
    def __iter__(self):
        source = random.Random(3)
        while True:
            yield torch.tensor([source.randrange(1, 90) for _ in range(source.randrange(8, 20))])


def collate(rows):
    x = pad_sequence(rows, batch_first=True)
    return x[:, :-1], x[:, 1:], torch.tensor([len(r) for r in rows])


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.rnn, self.out = nn.Embedding(90, 24, padding_idx=0), nn.LSTM(24, 40, num_layers=2, batch_first=True, dropout=0.1), nn.Linear(40, 90)

    def forward(self, ids):
        return self.out(self.rnn(self.embed(ids))[0])


device = "cuda:0"
model, scaler = Tagger().to(device), GradScaler()
criterion = nn.CrossEntropyLoss(ignore_index=0)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=100)
tokens = 0
for i, (x, y, lengths) in enumerate(DataLoader(Stream(), batch_size=5, collate_fn=collate, num_workers=2)):
    x, y, lengths = x.to(device), y.to(device), lengths.to(device)
    assert x.device == torch.device(device) and x.get_device() == 0
    tokens += int(lengths.sum())
    optimizer.zero_grad(set_to_none=True)
    with autocast(dtype=torch.float16):
        logits = model(x)
        loss = criterion(logits.reshape(-1, 90), y.reshape(-1))
    before = scaler.get_scale()
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    assert torch.isfinite(norm) and not torch.isnan(loss).any()
    scaler.step(optimizer)
    scaler.update()
    if scaler.get_scale() >= before:
        scheduler.step()
    print("trained", tokens, norm.item())
    if i == 3:
        break
