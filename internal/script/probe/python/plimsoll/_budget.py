"""Keeps what recording costs below a share of the step time.

Recording an event costs well under a microsecond; walking the Python stack of an allocation costs about two (PyTorch's own figure, torch/cuda/memory.py,
2.11), and letting the stack go when the event leaves the ring costs twice as much again (an H200, docs/measurements/2026-11-16-h200-overhead.md). On a step
that waits for the GPU this is free; on one that waits for Python it is not. So the first steps are recorded with stacks. Where they have so many allocations
that stacks might show, as many steps follow without, the last of each are compared, and from there on only so many steps carry stacks as the budget allows.
Single steps of both kinds in turn cannot be compared: those without pay for the stacks that leave the ring.

A machine with other work makes one comparison say nearly anything: that stacks cost nothing on a step of 28 ms which they made 6 ms longer, twice in a row on one
of 22 ms (the same H200). So comparisons decide only whether stacks show at all: they are taken for free when every one of five says so, by the longer step and
by the longer time that the training thread was busy. The first that says otherwise ends it, and then their cost is at least what counting gives: so many
allocations, at what the stack of one was measured to cost. A cost that is believed too high only takes lines away.
A failure in a step without stacks has no lines; most programs that fail do so early, and are not slowed down for long.

Where stacks show, the rest does too: on a step of 19 ms with 687 allocations (the same table) events cost 0.7 ms in a ring of 100,000, which is more than a
processor's cache holds, and asking for the counters at each phase 0.4 ms. So from then on the ring holds a few steps only, the counters are asked for in one step of
four, and the phases are told apart in steps with stacks and after a new peak.
"""
BEARABLE = 0.03  # of the step time: stacks that cost no more are kept in every step
SHARE = 0.005  # of the step time that stacks may cost where they cost more; events without stacks cost 2 to 3 % of such a step
WARM_UP = 64  # steps with stacks: lazy initialisation, and the steps in which most scripts die
LIGHT = 64  # steps without, in which the stacks leave the ring
COUNTED = 16  # the last of both that are compared
ROUNDS = 5  # comparisons that have to find a low cost before it is believed
TAKEN = 10e-6  # seconds that taking the stack of one allocation costs at most: 5 to 7 were measured
STACK = 15e-6  # seconds that it costs at least when it also leaves the ring: one step with stacks took 90 % longer, with 687 allocations in 20 ms
RAREST = 1000  # at the least, one step in so many carries stacks
RING = 100_000  # allocator events that PyTorch keeps a device; about a kilobyte of host memory each with Python stacks
KEPT, SMALL = 4, 4096  # steps that the ring holds where recording shows, and the least events
COUNTERS = 4  # where recording shows, one step in so many asks for the counters at its end
EVENTS = 3  # of an allocation: it begins, its end is asked for, it ends
LEAVING = 3  # times what is measured is what stacks cost, where none left the ring meanwhile


class Budget:
    """Says of each step whether its allocations carry Python stacks."""

    def __init__(self, adaptive=True):
        self.adaptive = adaptive
        self.period, self.ring = 1, RING
        self.cost = None  # measured, as a share of a step without stacks
        self.costs = []  # of each comparison
        self.measuring = adaptive
        self.steps = {True: [], False: []}  # of this comparison: seconds of each, and of its thread's work
        self.last = None
        self.before = None  # allocations until the first step that is counted

    def stacks_in(self, step):
        """Whether the step of that number (from 0) is recorded with stacks."""
        if self.measuring:
            return step % (WARM_UP + LIGHT) < WARM_UP
        return step % self.period == 0

    def phases_in(self, step, rose):
        """Whether the phases of that step are told apart; rose: the step before had a new peak."""
        return self.period == 1 or rose or self.stacks_in(step)

    def counts_in(self, step):
        """Whether the counters are asked for at the end of that step."""
        return self.period == 1 or step % COUNTERS == 0

    def step_done(self, step, now, busy, allocations):
        """Tell that the step ended at that time, after so many seconds of the thread's own work and so many allocations since the process began."""
        since, self.last = self.last, (now, busy)
        if not self.measuring or since is None:
            return
        at = step % (WARM_UP + LIGHT)
        if at == WARM_UP - COUNTED:
            self.before = allocations
        elif WARM_UP - COUNTED < at < WARM_UP or at >= WARM_UP + LIGHT - COUNTED:
            self.steps[at < WARM_UP].append((now - since[0], busy - since[1]))
        if at == WARM_UP - 1:
            self.before = allocations - self.before if self.before is not None else 0
            self.measuring = TAKEN * self.before > BEARABLE * sum(seconds for seconds, _ in self.steps[True])
        elif at == WARM_UP + LIGHT - 1:
            self._compare()

    def _compare(self):
        """One comparison more: decide, or measure again."""
        allocations = self.before / (COUNTED - 1)  # of a step
        turns = EVENTS * allocations * (LIGHT - COUNTED)  # events until the first step that is counted
        found = cost(self.steps[True], self.steps[False]) * (1 if turns >= RING else LEAVING)
        self.costs.append(found)
        if found <= BEARABLE and len(self.costs) < ROUNDS:
            self.steps = {True: [], False: []}
            return
        self.measuring, self.cost = False, found
        if found > BEARABLE:
            self.cost = max(found, STACK * allocations / _undisturbed(self.steps[False])[0])
            self.period = min(RAREST, -int(-self.cost // SHARE))
            self.ring = min(RING, max(SMALL, int(KEPT * EVENTS * allocations)))


def cost(with_stacks, without):
    """What stacks cost, as a share of a step without: the longer step or the longer work, whichever says more."""
    (slow, more), (fast, less) = map(_undisturbed, (with_stacks, without))
    return max(0.0, slow - fast, more - less) / fast if fast > 0 else 0.0


def _undisturbed(steps):
    """What a step takes when nothing else gets in its way: a machine with other work makes some steps longer and none shorter."""
    return tuple(sorted(values)[len(values) // 4] for values in zip(*steps)) or (0.0, 0.0)
