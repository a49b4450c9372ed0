import torch
import torch.nn as nn


class CharRNN(nn.Module):
    def __init__(self, vocab=256, d=768):
        super().__init__()
        self.emb, self.rnn, self.out = nn.Embedding(vocab, d), nn.LSTM(d, d, 2, batch_first=True), nn.Linear(d, vocab)

    def forward(self, x, s=None):
        h, s = self.rnn(self.emb(x), s)
        return self.out(h), s


net = CharRNN().cuda()
opt = torch.optim.Adam(net.parameters())
text = torch.randint(0, 256, (64, 6001))
state = None
total = 0.0
for i in range(0, 6000, 100):
    x, y = text[:, i:i + 100].cuda(), text[:, i + 1:i + 101].cuda()
    out, state = net(x, state)
    state = tuple(s.detach() for s in state)
    loss = nn.functional.cross_entropy(out.flatten(0, 1), y.flatten())
    opt.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(net.parameters(), 1.0)
    opt.step()
    total += loss.detach()
print(total / 60)
