"""Samples of many lengths, padded batch by batch, in two epochs with an evaluation after each. With the argument "oracle" it prints its batches instead."""
import json
import sys

import torch
from torch.utils.data import DataLoader
from transformers import GPT2Config, GPT2LMHeadModel

rows = [list(range(1, 4 + (7 * i) % 23)) for i in range(21)]
held_out = [list(range(1, 6 + (5 * i) % 11)) for i in range(7)]


def padded(samples):
    longest = max(len(s) for s in samples)
    ids = torch.tensor([s + [0] * (longest - len(s)) for s in samples])
    return {"input_ids": ids, "attention_mask": (ids > 0).long(), "labels": ids}


generator = torch.Generator().manual_seed(7)
loader = DataLoader(rows, batch_size=4, shuffle=True, collate_fn=padded, generator=generator)
evaluation = DataLoader(held_out, batch_size=3, collate_fn=padded)
if sys.argv[1:] == ["oracle"]:
    shapes = lambda batches: [[*b["input_ids"].shape, not bool(b["attention_mask"].all())] for b in batches]
    print(json.dumps({"batches": shapes(loader) + shapes(loader), "eval": shapes(evaluation)}))
    sys.exit()
model = GPT2LMHeadModel(GPT2Config(n_layer=2, n_embd=64, n_head=4, vocab_size=500, bos_token_id=0, eos_token_id=0)).cuda()
optimizer = torch.optim.AdamW(model.parameters())
for epoch in range(2):
    for batch in loader:
        optimizer.zero_grad()
        model(**{name: value.cuda() for name, value in batch.items()}).loss.backward()
        optimizer.step()
    with torch.no_grad():
        for batch in evaluation:
            model(**{name: value.cuda() for name, value in batch.items()})
