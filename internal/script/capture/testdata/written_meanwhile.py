"""Goes on while its trace is written, as a script does when its time is over."""
import threading

import torch

watchdog = next(t for t in threading.enumerate() if isinstance(t, threading.Timer))
trace = watchdog.function.__closure__[0].cell_contents


class Meanwhile(list):
    """The tables of a trace, while a script makes a tensor by an operator that they do not name."""

    def __iter__(self):
        yield from list.__iter__(self)
        held.append(torch.arange(4096, device="cuda"))


held = [torch.empty(1 << 20, device="cuda")]
trace.owners.values = Meanwhile(trace.owners.values)
watchdog.function()
