import copy
from collections import deque
import torch
import torch.nn as nn
import torch.nn.functional as F

enc = nn.Sequential(nn.Linear(2048, 4096), nn.ReLU(), nn.Linear(4096, 4096), nn.ReLU(), nn.Linear(4096, 256)).cuda()
slow = copy.deepcopy(enc).requires_grad_(False)
opt = torch.optim.AdamW(enc.parameters(), 1e-4)
queue = deque(maxlen=8)
for step in range(50):
    x = torch.randn(4096, 2048, device="cuda")
    q = F.normalize(enc(x + 0.1 * torch.randn_like(x)), dim=-1)
    with torch.no_grad():
        k = F.normalize(slow(x), dim=-1)
        for a, b in zip(enc.parameters(), slow.parameters()):
            b.lerp_(a, 0.01)
    queue.append(k)
    neg = torch.cat(list(queue))
    loss = -(q * k).sum(-1).mean() + torch.logsumexp(q[:256] @ neg.T, -1).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
print(loss.item())
