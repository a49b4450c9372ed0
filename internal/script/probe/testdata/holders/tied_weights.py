# truth: parameters of model, the tied embedding counted once
# holder: parameter model
import torch
from torch import nn

import kit

class Tied(nn.Module):
    def __init__(self, words, width):
        super().__init__()
        self.embed = nn.Embedding(words, width)
        self.head = nn.Linear(width, words, bias=False)
        self.head.weight = self.embed.weight


model = Tied(kit.d(100_000, 200), kit.d(2048, 16)).to(kit.DEVICE)
kit.look()
