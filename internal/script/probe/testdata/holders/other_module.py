# truth: the list KEPT of the module shelf
# holder: variable KEPT[*]
import torch
from torch import nn

import kit

import shelf

for step in kit.steps():
    shelf.keep(kit.batch()[0])
