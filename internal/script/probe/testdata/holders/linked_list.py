# truth: a linked list that begins at head
# holder: variable head.next
import torch
from torch import nn

import kit

class Link:
    def __init__(self, payload, following):
        self.payload, self.next = payload, following


head = None
for step in kit.steps():
    head = Link(kit.batch()[0], head)
