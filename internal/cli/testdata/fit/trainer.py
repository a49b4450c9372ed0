"""transformers' Trainer, which accumulates itself: eight steps, with `padded` as argument over unequal numbers of targets."""
import json
import sys
import tempfile

import torch
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments, set_seed

set_seed(11)
still = {"resid_pdrop": 0, "embd_pdrop": 0, "attn_pdrop": 0}  # dropout would fall differently on parts of a batch
model = GPT2LMHeadModel(GPT2Config(n_layer=2, n_embd=64, n_head=4, vocab_size=100, bos_token_id=0, eos_token_id=0, **still))
rows = [{"input_ids": torch.arange(i, 16 + i), "labels": torch.arange(i, 16 + i)} for i in range(64)]
for i, row in enumerate(rows if "padded" in sys.argv else []):
    row["labels"][2 + i * 5 % 14:] = -100
with tempfile.TemporaryDirectory() as folder:
    arguments = TrainingArguments(folder, per_device_train_batch_size=8, num_train_epochs=1, report_to=[], disable_tqdm=True, save_strategy="no", use_cpu=True)
    Trainer(model, arguments, train_dataset=rows).train()
print(json.dumps([p.double().flatten().tolist() for p in model.parameters()]))
