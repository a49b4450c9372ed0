"""Trains GPT-2 small as the measured runs did: `gpt2.py '{"batch": 4, "seq": 512, …}'`, a job's settings."""
import contextlib
import json
import sys

import torch
from transformers import GPT2Config, GPT2LMHeadModel

job = json.loads(sys.argv[1])
TYPES = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp32": torch.float32}
model = GPT2LMHeadModel(GPT2Config(use_cache=False)).to("cuda", TYPES[job.get("param_dtype", "fp32")])
if job.get("checkpointing"):
    model.gradient_checkpointing_enable()
OPTIMIZERS = {
    "adamw": lambda p: torch.optim.AdamW(p), "adamw-fused": lambda p: torch.optim.AdamW(p, fused=True),
    "adamw-loop": lambda p: torch.optim.AdamW(p, foreach=False), "sgdm": lambda p: torch.optim.SGD(p, lr=1e-3, momentum=0.9),
}
optimizer = OPTIMIZERS[job["optimizer"]](model.parameters())
scaler = torch.amp.GradScaler("cuda", enabled=job.get("autocast") == "fp16")
ids = torch.randint(0, 50257, (job["batch"], job["seq"]), device="cuda")
parts = job.get("accumulate", 1)


def precision():
    return torch.autocast("cuda", dtype=TYPES[job["autocast"]]) if "autocast" in job else contextlib.nullcontext()


def step():
    optimizer.zero_grad(set_to_none=True)
    for _ in range(parts):
        with precision():
            out = model(input_ids=ids, labels=ids)
        scaler.scale(out.loss / parts if parts > 1 else out.loss).backward()
    scaler.step(optimizer)
    scaler.update()


for _ in range(3):
    if job.get("loop") != "plain":
        step()
        continue
    optimizer.zero_grad(set_to_none=True)
    with precision():
        out = model(input_ids=ids, labels=ids)
    loss = out.loss
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
