"""Keeps what recording costs below a share of the step time.

Recording an event costs well under a microsecond; walking the Python stack of an allocation costs about two (PyTorch's own figure, torch/cuda/memory.py,
2.11), and letting the stack go when the event leaves the ring costs twice as much again (an H200, docs/measurements/2026-11-16-h200-overhead.md). On a step
that waits for the GPU this is free; on one that waits for Python it is not. So the first steps are recorded with stacks. Where they have so many allocations
that stacks might show, as many steps follow without, the last of each are compared, and from there on only so many steps carry stacks as the budget allows.
Steps of both kinds in turn cannot be compared: those without pay for the stacks that leave the ring.
A failure in a step without stacks has no lines; most programs that fail do so early, and are not slowed down for long.
"""

BEARABLE = 0.03  # of the step time: stacks that cost no more are kept in every step
SHARE = 0.02  # of the step time that stacks may cost where they cost more
WARM_UP = 64  # steps with stacks: lazy initialisation, and the steps in which most scripts die
LIGHT = 64  # steps without, in which the stacks leave the ring
COUNTED = 16  # the last of both that are compared
MOST = 10e-6  # seconds that the stack of one allocation costs at most: 5 to 7 were measured
RAREST = 1000  # at the least, one step in so many carries stacks


class Budget:
    """Says of each step whether its allocations carry Python stacks."""

    def __init__(self, adaptive=True):
        self.adaptive = adaptive
        self.period = 1
        self.cost = None  # measured, as a share of a step without stacks
        self.times = {True: [], False: []}
        self.last = None
        self.light = LIGHT  # steps without stacks that are still to come when the first ones are over
        self.before = None  # allocations until the first step that is counted

    def stacks_in(self, step):
        """Whether the step of that number (from 0) is recorded with stacks."""
        if not self.adaptive or step < WARM_UP:
            return True
        return step >= WARM_UP + self.light and step % self.period == 0

    def step_done(self, step, now, allocations):
        """Tell that the step ended at that time (seconds), after so many allocations since the process began."""
        since, self.last = self.last, now
        if not self.adaptive or since is None or step >= WARM_UP + self.light:
            return
        if step == WARM_UP - COUNTED:
            self.before = allocations
        elif WARM_UP - COUNTED < step < WARM_UP:
            self.times[True].append(now - since)
        elif step >= WARM_UP + LIGHT - COUNTED:
            self.times[False].append(now - since)
        if step == WARM_UP - 1 and MOST * (allocations - self.before) <= BEARABLE * sum(self.times[True]):
            self.light = 0
        elif step == WARM_UP + LIGHT - 1:
            self._decide()

    def _decide(self):
        with_stacks, without = _undisturbed(self.times[True]), _undisturbed(self.times[False])
        if without <= 0:
            return
        self.cost = max(0.0, with_stacks / without - 1)
        self.period = 1 if self.cost <= BEARABLE else min(RAREST, -int(-self.cost // SHARE))


def _undisturbed(values):
    """What a step takes when nothing else gets in its way: a machine with other work makes some steps longer and none shorter."""
    ordered = sorted(values)
    return ordered[len(ordered) // 4] if ordered else 0.0
