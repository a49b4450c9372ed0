# truth: parameters and Adam's state of a model sharded by FSDP2
# holder: optimizer model
import torch
from torch import nn

import kit

import tempfile

import torch.distributed as dist

try:
    from torch.distributed.fsdp import fully_shard
except ImportError:
    from torch.distributed._composable.fsdp import fully_shard

if not dist.is_initialized():
    dist.init_process_group("nccl" if kit.CUDA else "gloo", init_method="file://" + tempfile.mktemp(), rank=0, world_size=1)
model = kit.net(kit.d(4096, 64), depth=kit.d(8, 2))
for layer in model:
    if isinstance(layer, nn.Linear):
        fully_shard(layer)
fully_shard(model)
optimizer = torch.optim.AdamW(model.parameters())
for step in kit.steps(2):
    x, y = kit.batch(kit.d(64, 8), kit.d(4096, 64))
    kit.learn(model, optimizer, x, y)
