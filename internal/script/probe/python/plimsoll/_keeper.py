"""Decides when to look who holds the memory of a run that lives: once when it grows without end, near its peak if its record is kept, and when asked."""
import os
import signal
import threading
import time

from . import _files, _holders, _holdersfile

SIGNAL = signal.SIGUSR2  # asks a run for its holders; the script's own handler stays where it has one
WINDOW, WINDOWS = 8, 4  # steps; memory grows when the least of each window is above the most of the one before
LEAST = 32 * 2**20  # growth over these windows that is worth a look
HIGHER, PEAKS = 1.05, 4  # a peak higher by so much is looked at anew, so many times
SHOWN, LETTERS = 10, 100  # holders told to `plimsoll watch`, and of each name


class Keeper:
    def __init__(self, recorder, peak):
        self.recorder, self.peak = recorder, peak
        self.lows, self.highs, self.inside = [], [], 0
        self.grew = False
        self.peaks, self.highest = 0, 0
        self.names = set()  # of files that a failure makes superfluous
        self.shown, self.hears = None, False

    # Growth ------------------------------------------------------------------------------------------------------------------

    def stepped(self, allocated):
        """A step has ended with so many bytes held."""
        if self.grew:
            return
        if self.inside == 0:
            del self.lows[:-WINDOWS + 1], self.highs[:-WINDOWS + 1]
            self.lows.append(allocated)
            self.highs.append(allocated)
        self.lows[-1], self.highs[-1] = min(self.lows[-1], allocated), max(self.highs[-1], allocated)
        self.inside = (self.inside + 1) % WINDOW
        if self.inside == 0 and self._grows():
            self.grew = True
            self._keep("growth")

    def _grows(self):
        rises = all(low > high for low, high in zip(self.lows[1:], self.highs))
        return len(self.lows) == WINDOWS and rises and self.lows[-1] - self.lows[0] >= LEAST

    # Peak --------------------------------------------------------------------------------------------------------------------

    def entered(self, phase):
        """A phase begins. The peak of a step lies in or just behind the same phase of every step, once there has been one."""
        reached, r = self.recorder.peak, self.recorder
        if not self.peak or self.peaks == PEAKS or r.step <= reached["step"] or r.oom_count:
            return
        moment = "optimizer" if reached["phase"] == "optimizer" else "backward"
        if phase == moment and reached["allocated"] > HIGHER * self.highest:
            self.peaks += 1
            self.highest = reached["allocated"]
            self._keep("peak")

    def ending(self):
        """The process ends; a record that was asked for has at least its end."""
        if self.peak and not self.peaks and not self.recorder.oom_count:
            self._keep("peak")

    def _keep(self, when):
        name = f"{self.recorder.name}.{when}"
        self.names.add(name)
        found = self.recorder.dump(when, name)
        if found:
            self.show(found)

    def superseded(self):
        """A failure is described: it says all that these did."""
        for name in self.names:
            for ending in (".pickle", _holdersfile.ENDING):
                _files.remove(os.path.join(self.recorder.report, name + ending))
        self.names.clear()

    # Asked -------------------------------------------------------------------------------------------------------------------

    def listen(self):
        """Answer a signal, where the script has no use for it and this is its main thread."""
        if threading.current_thread() is threading.main_thread() and signal.getsignal(SIGNAL) is signal.SIG_DFL:
            signal.signal(SIGNAL, self._asked)
            self.hears = True

    def _asked(self, number, frame):
        if self.recorder.alive:
            self.recorder._try(lambda: self._keep("demand"))
            self.recorder.flush(force=True)

    def show(self, found):
        rows = [{"name": _holders.title(h)[:LETTERS], "bytes": h["bytes"], "count": h["count"]} for h in _holders.together(found)[:SHOWN]]
        self.shown = {"time": time.time(), "step": found["step"], "share": _holders.share(found), "holders": rows}

    def status(self):
        """What `plimsoll watch` may ask and show."""
        told = {"asks": int(SIGNAL)} if self.hears and signal.getsignal(SIGNAL) == self._asked else {}
        return {**told, **({"held": self.shown} if self.shown else {})}
