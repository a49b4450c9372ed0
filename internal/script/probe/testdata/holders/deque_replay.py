# truth: a deque holds every observation
# holder: variable replay[*]
import torch
from torch import nn

import kit

from collections import deque

replay = deque(maxlen=1_000_000)
for step in kit.steps():
    replay.append(kit.batch()[0])
