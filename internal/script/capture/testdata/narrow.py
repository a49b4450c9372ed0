"""fully_shard of one process, in bf16 by its policy."""
import torch
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
model = torch.nn.Sequential(*(torch.nn.Sequential(torch.nn.Linear(1024, 1024), torch.nn.GELU()) for _ in range(6))).cuda()
for part in model:
    fully_shard(part, mp_policy=policy)
fully_shard(model, mp_policy=policy)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(3):
    x = torch.randn(8192, 1024, device="cuda")
    loss = model(x).float().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
