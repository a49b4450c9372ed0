# truth: batches in a queue that nobody empties
# holder: variable waiting.queue[*]
import torch
from torch import nn

import kit

import queue

waiting = queue.Queue()
for step in kit.steps():
    waiting.put(kit.batch()[0])
