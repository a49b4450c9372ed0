"""plimsoll: what a PyTorch script does to GPU memory.

Three calls, for those who would rather write them than run `plimsoll run -- python train.py`:

    import plimsoll
    plimsoll.start("report")   # record from here on; writes into the folder "report"
    plimsoll.mark("epoch 2")   # name this moment in the record
    plimsoll.stop()            # write everything down; returns the summary as a dict

`plimsoll explain report/*.pickle` reads what was recorded. Nothing is imported but torch, and that only by start().
"""

__all__ = ["start", "mark", "stop"]


def start(report="plimsoll-report"):
    """Record memory from here on into the folder `report`. Calling it twice changes nothing."""
    import torch

    from . import _recorder

    _recorder.attach(torch, report)


def mark(name):
    """Name this moment in the record; it does nothing before start()."""
    from . import _recorder

    if _recorder.current() is not None:
        _recorder.current().mark(str(name))


def stop():
    """Write the snapshot and the notes; returns the notes as a dict (empty before start())."""
    from . import _recorder

    recorder = _recorder.current()
    return {} if recorder is None else recorder.finish(snapshot=True)
