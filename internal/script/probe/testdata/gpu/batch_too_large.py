"""GPT-2 small with a batch that the cap cannot hold."""
import torch
from transformers import GPT2Config, GPT2LMHeadModel

torch.cuda.set_per_process_memory_fraction(16 * 2**30 / torch.cuda.get_device_properties(0).total_memory)
model = GPT2LMHeadModel(GPT2Config(use_cache=False)).cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)


def train_step(ids):
    loss = model(input_ids=ids, labels=ids).loss
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()


for _ in range(3):
    train_step(torch.randint(0, 50000, (64, 1024), device="cuda"))
