"""transformers' Trainer: GPT-2, bf16, checkpointing, accumulation."""
import tempfile

import torch
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments

model = GPT2LMHeadModel(GPT2Config(use_cache=False))
rows = [{"input_ids": torch.arange(512), "labels": torch.arange(512)}] * 48
arguments = TrainingArguments(tempfile.mkdtemp(), per_device_train_batch_size=8, gradient_accumulation_steps=2, max_steps=3, bf16=True,
                              gradient_checkpointing=True, report_to=[], save_strategy="no", disable_tqdm=True)
Trainer(model, arguments, train_dataset=rows).train()
