"""Keeps what recording costs below a share of the step time.

Recording an event costs well under a microsecond; walking the Python stack of an allocation costs about two (PyTorch's own figure, torch/cuda/memory.py,
2.11). On a step that waits for the GPU this is free; on one that waits for Python it is not. So the first steps are recorded with
stacks, then steps with and without them are timed in turn, and from there on only so many steps carry stacks as the budget allows.
A failure in a step without stacks has no lines; most programs that fail do so early, and are not slowed down for long.
"""

BEARABLE = 0.03  # of the step time: stacks that cost no more are kept in every step
SHARE = 0.02  # of the step time that stacks may cost where they cost more
WARM_UP = 64  # steps before timing: lazy initialisation, and the steps in which most scripts die
ROUNDS = 6  # times that four steps with stacks and four without are compared
RUN = 4  # steps of one kind in a row; the first of each run is not counted, the GPU's queue still holds the other kind
RAREST = 1000  # at the least, one step in so many carries stacks


class Budget:
    """Says of each step whether its allocations carry Python stacks."""

    def __init__(self, adaptive=True):
        self.adaptive = adaptive
        self.period = 1
        self.cost = None  # measured, as a share of a step without stacks
        self.times = {True: [], False: []}
        self.last = None

    def stacks_in(self, step):
        """Whether the step of that number (from 0) is recorded with stacks."""
        if not self.adaptive or step < WARM_UP:
            return True
        if step < self._trial_end():
            return (step - WARM_UP) // RUN % 2 == 0
        return step % self.period == 0

    def step_done(self, step, now):
        """Tell that the step ended at that time (seconds)."""
        since, self.last = self.last, now
        if not self.adaptive or since is None or step < WARM_UP or step >= self._trial_end():
            return
        if (step - WARM_UP) % RUN > 0:
            self.times[self.stacks_in(step)].append(now - since)
        if step == self._trial_end() - 1:
            self._decide()

    def _trial_end(self):
        return WARM_UP + 2 * RUN * ROUNDS

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
