# truth: owners hold the tensors, the weak dictionary does not
# holder: variable owners[*].data
import torch
from torch import nn

import kit

import weakref


class Owner:
    def __init__(self):
        self.data = kit.batch()[0]


owners, index = [], weakref.WeakValueDictionary()
for step in kit.steps():
    owners.append(Owner())
    index[step] = owners[-1]
