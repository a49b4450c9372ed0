# truth: activations of the graph of loss, in backward
# holder: saved loss
import torch
from torch import nn

import kit

def main():
    model = kit.net(depth=6)
    x, y = kit.batch(kit.d(24_000, 64))
    loss = nn.functional.cross_entropy(model(x), y)
    if not kit.CUDA:
        kit.look()
    while True:
        loss.backward(retain_graph=True)
        x.grad_kept = [torch.empty(2**24, device=kit.DEVICE) for _ in range(2)] + getattr(x, "grad_kept", [])


main()
