"""A frozen backbone under no_grad, a head trained on its features, a loss written by hand."""
import torch
from torch import nn

backbone = nn.Sequential(*[layer for _ in range(4) for layer in (nn.Linear(4096, 4096), nn.ReLU())]).cuda().eval()
head = nn.Sequential(nn.Linear(4096, 8192), nn.GELU(), nn.Linear(8192, 1000)).cuda()
for p in backbone.parameters():
    p.requires_grad_(False)
optimizer = torch.optim.Adagrad(head.parameters())
for _ in range(3):
    x, y = torch.randn(4096, 4096).cuda(), torch.randint(0, 1000, (4096,)).cuda()
    with torch.no_grad():
        features = backbone(x)
    scores = torch.log_softmax(head(features), dim=-1)
    loss = -scores.gather(1, y[:, None]).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
