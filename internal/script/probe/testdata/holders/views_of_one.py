# truth: parts holds views of one large tensor, counted once
# holder: variable parts
import torch
from torch import nn

import kit

def main():
    parts = torch.randn(kit.d(400, 8), kit.d(2**20, 64), device=kit.DEVICE).unbind()
    kit.look()


main()
