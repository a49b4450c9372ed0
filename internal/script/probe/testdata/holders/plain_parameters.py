# truth: parameters without a module, and Adam's state of them
# holder: optimizer weights[*]
import torch
from torch import nn

import kit

def main():
    weights = [torch.randn(kit.d(2**22, 64), device=kit.DEVICE, requires_grad=True) for _ in range(kit.d(40, 3))]
    optimizer = torch.optim.Adam(weights, foreach=False)
    for step in kit.steps(2):
        optimizer.zero_grad()
        sum((w * w).mean() for w in weights).backward()
        optimizer.step()


main()
