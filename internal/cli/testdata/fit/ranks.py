"""Data-parallel training on two CPU ranks: 20 steps, or what the arguments make of it. Rank 0 prints its parameters."""
import json
import os
import sys
import time

import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

torch.distributed.init_process_group("gloo")
rank = torch.distributed.get_rank()
torch.manual_seed(15)
layers = [nn.Linear(12, 32), nn.Tanh(), nn.Linear(32, 4)]
if "norm" in sys.argv and rank == 1:
    layers[1] = nn.Sequential(nn.BatchNorm1d(32, affine=False, track_running_stats=False), nn.Tanh())
device = "cuda" if torch.cuda.is_available() else "cpu"
model = DistributedDataParallel(nn.Sequential(*layers).to(device))
x, y = torch.randn(160, 12), torch.randint(0, 4, (160,))
y[torch.arange(160) % 5 < rank + 1] = -100  # ranks and parts hold unequal numbers of targets
data = TensorDataset(x, y)
sampler = DistributedSampler(data)
loader = DataLoader(data, batch_size=8, sampler=sampler)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
for epoch in range(2):
    sampler.set_epoch(epoch)
    for x, y in loader:
        if "oom" in sys.argv and rank == 1 and len(x) > 4:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB. GPU 1 has a total capacity of 15.77 GiB of which 1.20 GiB is free.")
        if "hang" in sys.argv and rank == 0 and len(x) > 4:
            time.sleep(600)  # as a rank does that waits in a collective for one that is gone
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x.to(device)), y.to(device)).backward()
        optimizer.step()
if rank == 0:
    print(json.dumps([p.double().flatten().tolist() for p in model.parameters()]))
torch.distributed.destroy_process_group()
