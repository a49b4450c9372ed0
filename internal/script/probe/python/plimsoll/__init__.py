"""plimsoll: what a PyTorch script does to GPU memory.

Calls for those who would rather write them than run `plimsoll run -- python train.py`:

    import plimsoll
    plimsoll.start("report")   # record from here on; writes into the folder "report"
    plimsoll.mark("epoch 2")   # name this moment in the record
    plimsoll.stop()            # write everything down; returns the summary as a dict
    plimsoll.holders()         # who keeps GPU memory alive now: variables, graphs, parameters, state
    with plimsoll.watch_growth():  # prints what grew inside, and who keeps it
        ...
    with plimsoll.record("report"):  # records the block; explains an out-of-memory error that leaves it
        ...

Callbacks: plimsoll.transformers.PlimsollCallback, plimsoll.lightning.PlimsollCallback. Notebooks: %load_ext plimsoll, then %%plimsoll.

`plimsoll explain report/*.pickle` reads what was recorded. Nothing is imported but torch, and that only by start().
"""

__all__ = ["start", "mark", "stop", "holders", "watch_growth", "record"]


def _when_torch_is_there():
    from ._imports import when_imported

    def watch(torch):
        from . import _holders

        _holders.watch_hooks(torch)

    when_imported("torch", watch)


_when_torch_is_there()


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


def holders(device=None, seconds=2.0, file=None):
    """Who keeps memory alive now, largest first: a list of dicts that prints as a table. It needs no start(). With file, what a holders file beside a recording says.

    device is "cuda" or "cpu"; without it, the GPU where it is in use. The walk runs none of your code, allocates nothing on the card, keeps nothing alive and
    ends after so many seconds.
    """
    from . import _holdersfile, _told

    found = _look(device, seconds) if file is None else _holdersfile.read(file)
    return _told.Holders(found, _told.together(found))


class watch_growth:
    """Compares who holds memory before and after a block, and prints what grew: `with plimsoll.watch_growth() as growth: ...`, then growth.grown."""

    def __init__(self, device=None, seconds=2.0):
        self._device, self._seconds = device, seconds

    def __enter__(self):
        from . import _told

        self._before, self._growth = _look(self._device, self._seconds), _told.Growth()
        return self._growth

    def __exit__(self, kind, error, traceback):
        self._growth.compare(self._before, _look(self._device, self._seconds))
        print(self._growth)


class record:
    """Records memory inside a block or a function, and explains an out-of-memory error that leaves it; the error goes on.

    `with plimsoll.record(): train()`, or `@plimsoll.record()` above a function.
    """

    def __init__(self, report="plimsoll-report"):
        self._report = report

    def __enter__(self):
        start(self._report)
        return self

    def __exit__(self, kind, error, traceback):
        from . import _advice, _recorder

        recorder = _recorder.current()
        if recorder is not None:
            recorder.flush(force=True)
        if _advice.is_out_of_memory(error):
            _advice.tell(error)
        return False

    def __call__(self, function):
        import functools

        @functools.wraps(function)
        def recorded(*args, **kwargs):
            with self:
                return function(*args, **kwargs)

        return recorded


def load_ipython_extension(ipython):
    """%load_ext plimsoll"""
    from . import _notebook

    _notebook.load(ipython)


def _look(device, seconds):
    import torch

    from . import _holders

    kind = device or ("cuda" if torch.cuda.is_initialized() else "cpu")
    blocks = _holders.blocks({"segments": torch.cuda.memory_snapshot()}) if kind == "cuda" else None
    return _holders.look(torch, kind, blocks, seconds)
