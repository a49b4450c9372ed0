"""A model that runs out of memory in its third step, with the words PyTorch uses; there is no card here to do it for real."""
import torch

WORDS = ("CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 23.65 GiB of which 1.06 GiB is free. Process 4711 has 22.58 GiB memory "
         "in use. Of the allocated memory 21.90 GiB is allocated by PyTorch, and 210.00 MiB is reserved by PyTorch but unallocated.")


class Hungry(torch.nn.Module):
    def __init__(self, steps=3):
        super().__init__()
        self.layer, self.steps, self.calls = torch.nn.Linear(4, 1), steps, 0

    def forward(self, x, labels=None):
        self.calls += 1
        if self.calls == self.steps:
            raise torch.OutOfMemoryError(WORDS)
        return {"loss": self.layer(x).mean()}
