# truth: activations of a large batch in the forward pass
# holder: saved 
import torch
from torch import nn

import kit

class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        return x + self.down(nn.functional.gelu(self.up(x)))


class Last(nn.Module):
    def forward(self, x):
        if not kit.CUDA:
            kit.look()
        return x


def main():
    model = nn.Sequential(*(Block(kit.d(1024, 16)) for _ in range(kit.d(8, 6))), Last()).to(kit.DEVICE)
    x = torch.randn(kit.d(16384, 64), kit.d(1024, 16), device=kit.DEVICE)
    model(x)


main()
