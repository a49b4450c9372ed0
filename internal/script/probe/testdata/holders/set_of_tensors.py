# truth: the set kept
# holder: variable kept
import torch
from torch import nn

import kit

kept = set()
for step in kit.steps():
    kept.add(kit.batch()[0])
