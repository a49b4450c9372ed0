import random
import torch
import torch.nn as nn
from torch.utils.data import Dataset, DataLoader


class Utterances(Dataset):
    def __init__(self, n):
        self.n = n
        self.cache = {}
        self.window = torch.hann_window(400)

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        if i not in self.cache:
            wave = torch.randn(16000 * 10)
            spec = torch.stft(wave, 400, 160, window=self.window, return_complex=True).abs().log1p()
            self.cache[i] = spec.T.contiguous().cuda()
        return self.cache[i]


class CTCNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = nn.GRU(201, 256, 2, batch_first=True, bidirectional=True)
        self.fc = nn.Linear(512, 40)

    def forward(self, x):
        return self.fc(self.rnn(x)[0]).log_softmax(-1)


net = CTCNet().cuda()
optim = torch.optim.Adam(net.parameters())
loader = DataLoader(Utterances(6000), batch_size=16, shuffle=True)
ctc = nn.CTCLoss(zero_infinity=True)
for k, feats in enumerate(loader):
    logp = net(feats)
    T, B = logp.shape[1], logp.shape[0]
    target = torch.randint(1, 40, (B, 30), device="cuda")
    loss = ctc(logp.transpose(0, 1), target, torch.full((B,), T), torch.full((B,), 30))
    optim.zero_grad()
    loss.backward()
    optim.step()
    if k % 20 == 0:
        print("batch", k, "loss", loss.item())
