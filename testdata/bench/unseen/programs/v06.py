import torch
import torch.nn as nn

mixer = nn.Linear(4096, 64).cuda()
keep = []
tmp = []
for k in range(700):
    tmp.append(torch.empty(4 * 1024 * 1024 - 8192 * (k % 7), dtype=torch.uint8, device="cuda"))
    keep.append(torch.empty(3 * 512 * 1024, dtype=torch.uint8, device="cuda"))
tmp.clear()
print("free again", (torch.cuda.memory_reserved() - torch.cuda.memory_allocated()) / 2**30, flush=True)
for k in range(6):
    chunk = torch.randn(32768 * (k + 1), 4096, device="cuda")
    print(k, mixer(chunk).mean().item(), flush=True)
    del chunk
