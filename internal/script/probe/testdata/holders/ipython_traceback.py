# truth: the traceback of a cell that failed in a real IPython session keeps its variable features
# holder: variable features
import torch
from torch import nn

import kit

import os
import tempfile

os.environ.setdefault("IPYTHONDIR", tempfile.mkdtemp())
from IPython.core.interactiveshell import InteractiveShell

shell = InteractiveShell.instance(user_module=None)
shell._showtraceback = lambda *a: None  # it is kept, not shown
shell.run_cell("""
import torch, kit
def cell():
    features = [torch.randn(kit.d(2**26, 2**12), device=kit.DEVICE) for _ in range(6)]
    raise ValueError(len(features))
cell()
""", store_history=True)
kit.look()
