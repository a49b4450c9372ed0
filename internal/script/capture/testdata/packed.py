"""Sentences of many lengths, packed for an LSTM and padded again: the step of 600 words, not of 8 x 100."""
import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.rnn, self.out = nn.Embedding(1000, 64), nn.LSTM(64, 128, 2, bidirectional=True, batch_first=True), nn.Linear(256, 20)

    def forward(self, x, lengths):
        packed = pack_padded_sequence(self.words(x), lengths, batch_first=True, enforce_sorted=False)
        y, n = pad_packed_sequence(self.rnn(packed)[0], batch_first=True)
        assert y.shape == (8, 100, 256), y.shape
        return self.out(y)


model = Tagger().cuda()
optimizer = torch.optim.AdamW(model.parameters())
for _ in range(3):
    lengths = torch.tensor([100, 50, 90, 60, 80, 70, 100, 50])
    x = torch.randint(0, 1000, (8, 100)).cuda()
    nn.functional.cross_entropy(model(x, lengths).flatten(0, 1), x.flatten() % 20).backward()
    optimizer.step()
    optimizer.zero_grad()
