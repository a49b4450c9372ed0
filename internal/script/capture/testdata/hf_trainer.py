"""transformers' Trainer with bf16, checkpointing and accumulation."""
import sys

import torch
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments

model = GPT2LMHeadModel(GPT2Config(n_layer=2, n_embd=64, n_head=4, vocab_size=500, bos_token_id=0, eos_token_id=0))
row = {"input_ids": torch.arange(32), "labels": torch.arange(32), "attention_mask": torch.ones(32, dtype=torch.long)}
arguments = TrainingArguments(output_dir=sys.argv[1], per_device_train_batch_size=4, gradient_accumulation_steps=2, bf16=True,
                              gradient_checkpointing=True, report_to=[], disable_tqdm=True)
Trainer(model, arguments, train_dataset=[row] * 32).train()
