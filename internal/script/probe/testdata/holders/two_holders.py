# truth: the same tensors in history and in board.rows: both must let go
# holder: variable history[*]
import torch
from torch import nn

import kit

class Board:
    def __init__(self):
        self.rows = []


def main():
    history, board = [], Board()
    for step in kit.steps():
        x = kit.batch()[0]
        history.append(x)
        board.rows.append(x)


main()
