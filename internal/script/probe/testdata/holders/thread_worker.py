# truth: mine, a variable of a thread's worker()
# holder: variable mine[*]
import torch
from torch import nn

import kit

import threading

ready, go = threading.Event(), threading.Event()


def worker():
    mine = [torch.randn(kit.d(2**26, 2**12), device=kit.DEVICE) for _ in range(6)]
    ready.set()
    go.wait(600)
    return mine


threading.Thread(target=worker, daemon=True).start()
ready.wait()
try:
    kit.look()
finally:
    go.set()
