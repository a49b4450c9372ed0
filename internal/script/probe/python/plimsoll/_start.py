"""Decides, from the environment alone, what the probe does in this process, and waits for torch to be imported."""
import os

from . import _children
from ._imports import when_imported


def from_environment():
    """Arm the probe when `plimsoll run` or `plimsoll predict` started this process; costs nothing until torch is imported."""
    report = os.environ.get("PLIMSOLL_REPORT")
    if not report:
        return
    _children.follow()
    if os.environ.get("PLIMSOLL_MODE") == "capture":
        when_imported("torch", lambda torch: _capture(torch, report))
    elif os.environ.get("PLIMSOLL_MODE") == "trace":
        when_imported("torch", lambda torch: _trace(torch, report))
    else:
        when_imported("torch", lambda torch: _observe(torch, report))


def _observe(torch, report):
    from . import _recorder

    recorder = _recorder.attach(torch, report)
    if os.environ.get("PLIMSOLL_FIT"):
        from . import _fit

        _fit.attach(torch, recorder)


def _capture(torch, report):
    from . import _asked, _capture

    _asked.believe()
    _capture.attach(torch, report)
    _asked.Asked(torch, report).watch()


def _trace(torch, report):
    from . import _asked, _trace

    _asked.believe()
    _trace.attach(torch, report)
