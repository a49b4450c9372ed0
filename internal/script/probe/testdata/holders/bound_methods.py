# truth: objects that bound methods in callbacks belong to
# holder: variable callbacks[*].__self__.data
import torch
from torch import nn

import kit

class Job:
    def __init__(self):
        self.data = kit.batch()[0]

    def finish(self):
        pass


callbacks = []
for step in kit.steps():
    callbacks.append(Job().finish)
