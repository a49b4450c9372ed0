"""A recurrent layer goes to the GPU: its weights are there twice until they are parts of one buffer."""
import copy

import torch
from torch import nn

rnn = nn.GRU(2048, 2048).cuda()
assert [tuple(p.shape) for p in rnn.parameters()] == [(6144, 2048), (6144, 2048), (6144,), (6144,)]
rnn.flatten_parameters()
assert len(copy.deepcopy(rnn.cpu()).state_dict()) == 4
