"""Reinforcement learning: actions drawn from a distribution whose parameters PyTorch checks, then a step on the ones that were drawn."""
import numpy
import torch
from torch import nn
from torch.distributions import Categorical

policy = nn.Sequential(nn.Linear(8, 64), nn.Tanh(), nn.Linear(64, 4)).cuda()
optimizer = torch.optim.Adam(policy.parameters(), 1e-3)
for update in range(3):
    seen, done = [], []
    for _ in range(16):
        state = torch.tensor(numpy.random.randn(8, 8), dtype=torch.float32).cuda()
        with torch.no_grad():
            action = Categorical(logits=policy(state)).sample()
        action.cpu().numpy()
        seen.append(state)
        done.append(action)
    chosen = Categorical(logits=policy(torch.cat(seen)))
    loss = -(chosen.log_prob(torch.cat(done)) * torch.randn(128).cuda()).mean() - 0.01 * chosen.entropy().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
