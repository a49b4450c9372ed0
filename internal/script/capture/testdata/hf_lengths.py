"""transformers' Trainer over samples of many lengths: three epochs, an evaluation every four steps of two micro-batches."""
import sys

import torch
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments

rows = [{"input_ids": torch.arange(1, 4 + (7 * i) % 23)} for i in range(16)]


def padded(samples):
    ids = torch.nn.utils.rnn.pad_sequence([s["input_ids"] for s in samples], batch_first=True)
    return {"input_ids": ids, "attention_mask": (ids > 0).long(), "labels": ids}


model = GPT2LMHeadModel(GPT2Config(n_layer=2, n_embd=64, n_head=4, vocab_size=500, bos_token_id=0, eos_token_id=0))
arguments = TrainingArguments(output_dir=sys.argv[1], per_device_train_batch_size=2, per_device_eval_batch_size=5, gradient_accumulation_steps=2, num_train_epochs=3,
                              eval_strategy="steps", eval_steps=4, report_to=[], disable_tqdm=True, remove_unused_columns=False)
Trainer(model, arguments, train_dataset=rows, eval_dataset=rows[:12], data_collator=padded).train()
