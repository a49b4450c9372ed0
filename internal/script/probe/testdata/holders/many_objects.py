# truth: the list kept, in a process with a million other objects
# holder: variable kept[*]
import torch
from torch import nn

import kit

others = [[i, (i,), {"k": [i]}] for i in range(kit.d(3_000_000, 30_000))]
kept = []
for step in kit.steps():
    kept.append(kit.batch()[0])
