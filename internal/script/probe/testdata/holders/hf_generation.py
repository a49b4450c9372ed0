# truth: hidden states of every call of a transformers model in states
# holder: variable states[*]
import torch
from torch import nn

import kit

from transformers import GPT2Config, GPT2LMHeadModel

model = GPT2LMHeadModel(GPT2Config(n_layer=4, n_embd=kit.d(512, 32), n_head=4, vocab_size=kit.d(5000, 100))).to(kit.DEVICE)
states = []
with torch.no_grad():
    for step in kit.steps():
        ids = torch.randint(100, (kit.d(32, 2), kit.d(512, 16)), device=kit.DEVICE)
        states.append(model(ids, output_hidden_states=True).hidden_states)
