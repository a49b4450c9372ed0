"""Fails by its own fault before it trains."""
import torch

model = torch.nn.Linear(3, 3).cuda()
model(torch.ones(1, 4).cuda())
