# truth: sparse matrices in the list matrices
# holder: variable matrices[*]
import torch
from torch import nn

import kit

matrices = []
for step in kit.steps():
    rows = kit.d(2**22, 64)
    index = torch.arange(rows, device=kit.DEVICE).repeat(2, 1)
    matrices.append(torch.sparse_coo_tensor(index, torch.ones(rows, device=kit.DEVICE), (rows, rows)))
    del index
