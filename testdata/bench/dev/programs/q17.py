import torch
from torch import nn


class Transducer(nn.Module):
    def __init__(self, vocab=1024, d=256):
        super().__init__()
        self.encoder = nn.GRU(80, d, 2, batch_first=True)
        self.predictor = nn.GRU(64, d, batch_first=True)
        self.emb = nn.Embedding(vocab, 64)
        self.joint_out = nn.Linear(d, vocab)

    def forward(self, feats, labels):
        enc = self.encoder(feats)[0]
        pred = self.predictor(self.emb(labels))[0]
        joint = torch.tanh(enc[:, :, None] + pred[:, None])
        return self.joint_out(joint).log_softmax(-1)


asr = Transducer().cuda()
opt = torch.optim.Adam(asr.parameters(), 1e-3)
for step in range(10):
    feats = torch.randn(8, 400, 80, device="cuda")
    labels = torch.randint(0, 1024, (8, 100), device="cuda")
    logp = asr(feats, labels)
    loss = -logp[..., 0].mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(step, loss.item())
