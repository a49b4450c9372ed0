# truth: losses of a DDP model of one rank
# holder: saved losses[*]
import torch
from torch import nn

import kit

import os
import tempfile

import torch.distributed as dist

dist.init_process_group("nccl" if kit.CUDA else "gloo", init_method="file://" + tempfile.mktemp(), rank=0, world_size=1)
model = nn.parallel.DistributedDataParallel(kit.net())
losses = []
for step in kit.steps():
    x, y = kit.batch()
    losses.append(nn.functional.cross_entropy(model(x), y))
