"""What the parts of recording cost on GPT-2 small, 8 × 512: blocks of steps under each way of recording in turn, in one process. Prints one line a way."""
import statistics
import time

import torch
from transformers import GPT2Config, GPT2LMHeadModel

ROUNDS, BLOCK = 12, 15
model = GPT2LMHeadModel(GPT2Config(use_cache=False)).cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
ids = torch.randint(0, 50000, (8, 512), device="cuda")


def record(stacks):
    torch.cuda.memory._record_memory_history("all", context="alloc" if stacks else None, stacks="python", max_entries=100_000)


WAYS = {
    "none": lambda step: torch.cuda.memory._record_memory_history(None) if step == 0 else None,
    "light": lambda step: record(False) if step == 0 else None,
    "stacks": lambda step: record(True) if step == 0 else None,
    "stacks in every second step": lambda step: record(step % 2 == 0),
}


def timed(before, step):
    start = time.perf_counter()
    before(step)
    optimizer.zero_grad()
    with torch.autocast("cuda", dtype=torch.bfloat16):
        loss = model(input_ids=ids, labels=ids).loss
    loss.backward()
    optimizer.step()
    torch.cuda.synchronize()
    return 1000 * (time.perf_counter() - start)


for _ in range(30):
    timed(lambda step: None, 0)
means = {way: [] for way in WAYS}
for round in range(ROUNDS):
    for way, before in WAYS.items():
        times = []
        for step in range(BLOCK):
            times.append(timed(before, step))
        means[way].append(statistics.mean(times[2:]))
for way, values in means.items():
    pairs = [v / n - 1 for v, n in zip(values, means["none"])]
    print(f"{way}: mean {statistics.mean(values):.2f} ms, against none {100 * statistics.mean(pairs):+.1f} % ± {100 * statistics.stdev(pairs) / len(pairs) ** 0.5:.1f}")
