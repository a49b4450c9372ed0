# truth: targets kept beside their predictions in pairs
# holder: variable pairs[*][1]
import torch
from torch import nn

import kit

def run():
    model, pairs = kit.net(), []
    with torch.no_grad():
        for step in kit.steps():
            x, _ = kit.batch()
            pairs.append((model(x), x * 2))


run()
