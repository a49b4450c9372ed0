"""Times GPT-2 small: `gpt2_time.py BATCH SEQ STEPS`; prints the median of the step times in milliseconds after twenty warm-up steps and what recording decided."""
import sys
import time

import torch
from transformers import GPT2Config, GPT2LMHeadModel

batch, seq, steps = map(int, sys.argv[1:4])
torch.backends.cuda.matmul.allow_tf32 = True
model = GPT2LMHeadModel(GPT2Config(use_cache=False)).cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
ids = torch.randint(0, 50000, (batch, seq), device="cuda")
times = []
for step in range(steps):
    torch.cuda.synchronize()
    start = time.perf_counter()
    optimizer.zero_grad()
    with torch.autocast("cuda", dtype=torch.bfloat16):
        loss = model(input_ids=ids, labels=ids).loss
    loss.backward()
    optimizer.step()
    torch.cuda.synchronize()
    times.append(time.perf_counter() - start)
warm = times[60:]
print(f"mean_ms={1000 * sum(warm) / len(warm):.3f} median_ms={1000 * sorted(warm)[len(warm) // 2]:.3f}")
