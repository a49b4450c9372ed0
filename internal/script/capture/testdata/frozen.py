"""A frozen backbone, a head trained on it, and a loss the script writes itself."""
import torch
from torch import nn

backbone = nn.Sequential(nn.Linear(30, 40), nn.ReLU()).cuda().eval()
head = nn.Linear(40, 3).cuda()
for p in backbone.parameters():
    p.requires_grad_(False)
optimizer = torch.optim.Adagrad(head.parameters())
while True:
    x, y = torch.randn(9, 30).cuda(), torch.randint(0, 3, (9,)).cuda()
    with torch.no_grad():
        features = backbone(x)
    scores = torch.log_softmax(head(features), dim=-1)
    loss = -scores.gather(1, y[:, None]).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
