"""accelerate around a plain loop over a transformers model in bf16 weights."""
import torch
from accelerate import Accelerator
from torch.utils.data import DataLoader
from transformers import LlamaConfig, LlamaForCausalLM

accelerator = Accelerator()
config = LlamaConfig(hidden_size=1024, intermediate_size=2816, num_hidden_layers=8, num_attention_heads=16, num_key_value_heads=4, vocab_size=32000)
model = LlamaForCausalLM(config).to(torch.bfloat16)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
rows = [{"input_ids": torch.arange(1024), "labels": torch.arange(1024)} for _ in range(12)]
model, optimizer, loader = accelerator.prepare(model, optimizer, DataLoader(rows, batch_size=4))
for batch in loader:
    out = model(**batch, use_cache=False)
    accelerator.backward(out.loss)
    optimizer.step()
    optimizer.zero_grad()
