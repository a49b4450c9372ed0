# truth: total keeps the graph of every step
# holder: saved total
import torch
from torch import nn

import kit

def main():
    model = kit.net()
    total = 0
    for step in kit.steps():
        x, y = kit.batch()
        loss = nn.functional.cross_entropy(model(x), y)
        total = total + loss


main()
