# truth: the default argument seen of remember()
# holder: variable remember.__defaults__
import torch
from torch import nn

import kit

def remember(x, seen=[]):
    seen.append(x)


for step in kit.steps():
    remember(kit.batch()[0])
