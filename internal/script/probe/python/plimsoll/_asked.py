"""What a capture says about the place the script would run in, for whoever has to decide how it is to run there.

The script believes in the card named in PLIMSOLL_CARD ({"memory": bytes, "capability": [9, 0]}), so that one that sizes itself by its card decides as it
will there. place.json says whether a model is put on the GPU, the script's own cap on its memory, how many processes train together, and whether a DataLoader feeds them.
"""
import functools
import json
import os

from . import _files, _machine, _pretend
from ._imports import when_imported


def believe():
    """Pretend the card that was named."""
    card = json.loads(os.environ.get("PLIMSOLL_CARD") or "{}")
    _pretend.MEMORY = card.get("memory") or _pretend.MEMORY
    _pretend.CAPABILITY = tuple(card.get("capability") or _pretend.CAPABILITY)


class Asked:
    def __init__(self, torch, report):
        self.torch, self.path = torch, os.path.join(report, "place.json")
        world = _machine.number(_machine.WORLD_VARIABLES, 1)
        self.facts = {"schema": "plimsoll.place/1", "gpu": False, "cap_fraction": None, "world_size": world,
                      "local_world_size": _machine.number(("LOCAL_WORLD_SIZE",), world), "parallel": False, "loader": False}

    def watch(self):
        """Note what the script asks of its card; to be called when the pretended one is in place."""
        torch = self.torch
        cap = torch.cuda.set_per_process_memory_fraction

        def set_per_process_memory_fraction(fraction, device=None):
            self.note(cap_fraction=fraction)
            return cap(fraction, device)

        torch.cuda.set_per_process_memory_fraction = torch.cuda.memory.set_per_process_memory_fraction = set_per_process_memory_fraction
        module = torch.nn.Module
        self._before(module, "cuda", lambda *args, **kwargs: self.note(gpu=True))
        self._before(module, "to", self._moved)
        self._before(torch.nn.parallel.DistributedDataParallel, "__init__", lambda *args, **kwargs: self.note(parallel=True))
        when_imported("torch.utils.data.dataloader", lambda m: self._before(m.DataLoader, "__init__", lambda *args, **kwargs: self.note(loader=True)))
        self.note()

    def _before(self, kind, name, call):
        original = getattr(kind, name)

        @functools.wraps(original)
        def method(*args, **kwargs):
            call(*args, **kwargs)
            return original(*args, **kwargs)

        setattr(kind, name, method)

    def _moved(self, module, *args, **kwargs):
        if any(str(value).startswith("cuda") or (type(value) is int and value >= 0) for value in (*args[:1], kwargs.get("device"))):
            self.note(gpu=True)

    def note(self, **facts):
        self.facts.update(facts)
        _files.write_json(self.path, self.facts)
