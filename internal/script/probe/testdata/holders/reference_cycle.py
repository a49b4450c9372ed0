# truth: garbage in reference cycles, as collection is off
# holder: temporary
import torch
from torch import nn

import kit

import gc

gc.disable()


class Node:
    def __init__(self):
        self.me, self.data = self, kit.batch()[0]


for step in kit.steps():
    Node()
