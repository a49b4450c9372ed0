# truth: window, a variable of the generator windows()
# holder: variable window[*]
import torch
from torch import nn

import kit

def windows():
    window = []
    while True:
        window.append(kit.batch()[0])
        yield len(window)


source = windows()
for step in kit.steps():
    next(source)
