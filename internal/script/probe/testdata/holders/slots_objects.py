# truth: the slot value of every cell in cells
# holder: variable cells[*].value
import torch
from torch import nn

import kit

class Cell:
    __slots__ = ("value", "age")

    def __init__(self, value):
        self.value = value


cells = []
for step in kit.steps():
    cells.append(Cell(kit.batch()[0]))
