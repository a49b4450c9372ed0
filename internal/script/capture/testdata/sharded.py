"""fully_shard: one process has the whole model; several have shards, which cannot be captured."""
import torch
from torch.distributed.fsdp import fully_shard

model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Linear(8, 2)).cuda()
for m in model:
    fully_shard(m)
fully_shard(model)
model.set_requires_gradient_sync(True)
opt = torch.optim.Adam(model.parameters())
model(torch.randn(4, 8).cuda()).sum().backward()
opt.step()
print("trained")
