"""DistributedDataParallel as torchrun starts it: LOCAL_RANK, a DistributedSampler, no_sync for accumulation, reduced metrics."""
import contextlib
import os

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler


def main():
    local_rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local_rank)
    dist.init_process_group(backend="nccl")
    device = torch.device("cuda", local_rank)
    assert torch.cuda.current_device() == local_rank
    model = nn.SyncBatchNorm.convert_sync_batchnorm(nn.Sequential(nn.Linear(12, 30), nn.BatchNorm1d(30), nn.ReLU(), nn.Linear(30, 4))).to(device)
    model = DDP(model, device_ids=[local_rank], output_device=local_rank, gradient_as_bucket_view="COPIES" not in os.environ)
    data = TensorDataset(torch.randn(48, 12), torch.randint(0, 4, (48,)))
    sampler = DistributedSampler(data, shuffle=True)
    loader = DataLoader(data, batch_size=8, sampler=sampler, pin_memory=True, num_workers=2)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, foreach=False)
    for epoch in range(1):
        sampler.set_epoch(epoch)
        for i, (x, y) in enumerate(loader):
            x, y = x.to(local_rank, non_blocking=True), y.to(local_rank, non_blocking=True)
            last = (i + 1) % 3 == 0
            with contextlib.nullcontext() if last else model.no_sync():
                loss = nn.functional.cross_entropy(model(x), y) / 3
                loss.backward()
            if last:
                optimizer.step()
                optimizer.zero_grad()
                total = loss.detach().clone()
                dist.all_reduce(total)
                if dist.get_rank() == 0:
                    print("trained", total.item() / dist.get_world_size())
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
