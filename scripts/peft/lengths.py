"""The lengths of the samples behind PEFT's method comparison, as far as its published figures tell them.

All rows train on the same 20,000 samples of MetaMathQA in the same order: buckets of 80 samples, the longest batch of a bucket first
(https://github.com/huggingface/peft/blob/5d602fdbff04/method_comparison/MetaMathQA/utils.py#L310-L356). The rows do not say how long the samples are. Here their
lengths are drawn from one distribution: a lognormal whose sigma changes twice above the median, cut at the longest sample, which is a number of its own: one sample
decides the maximum of a run. Its six numbers are found from the published figures of two rows of one adapter and the number of tokens (fit), so that every other row is a test.
"""
import bisect
import random
from math import exp

SAMPLES, BATCH, BUCKET = 20_000, 4, 80
TOKENS = 4_198_051 - SAMPLES  # "train total tokens" counts an EOS for every sample
KNOTS = (0.0, 1.3, 2.3)  # where sigma changes, in standard deviations above the median


def normals(seed=1):
    """How far each sample is from the median in standard deviations, in the order of training."""
    r, out = random.Random(seed), []
    for _ in range(SAMPLES // BUCKET):
        out += sorted((r.gauss(0, 1) for _ in range(BUCKET)), reverse=True)
    return out


TOP = max(normals())


class Shape:
    """A distribution: median, sigma below it, three sigmas above, and the longest sample."""

    def __init__(self, numbers):
        self.median, *self.sigmas, self.longest = numbers

    def length(self, z):
        if z >= TOP:
            return round(self.longest)
        below, *above = self.sigmas
        log = below * min(z, 0)
        for i, sigma in enumerate(above):
            end = KNOTS[i + 1] if i + 1 < len(KNOTS) else 9
            log += sigma * min(max(z - KNOTS[i], 0), end - KNOTS[i])
        return max(8, min(round(self.median * exp(log)), round(self.longest)))


class Curve:
    """Reserved bytes of a step by its length, between lengths that were predicted."""

    def __init__(self, lengths, reserved):
        self.x, self.y = lengths, reserved
        self.table = [self.between(n) for n in range(lengths[-1] + 1)]

    def between(self, n):
        i = min(max(bisect.bisect(self.x, n), 1), len(self.x) - 1)
        a, b = self.x[i - 1], self.x[i]
        return self.y[i - 1] + (n - a) / (b - a) * (self.y[i] - self.y[i - 1])


def figures(reserved):
    """Mean and 99th percentile, the latter as numpy does."""
    s = sorted(reserved)
    at = 0.99 * (len(s) - 1)
    low = int(at)
    return sum(s) / len(s), s[low] + (at - low) * (s[min(low + 1, len(s) - 1)] - s[low])


def sketch(longest, curve, empty_every):
    """Mean, 99th percentile and maximum of a run with batches so long, in which the cache grows to its longest batch until it is emptied.

    Batches of a bucket get shorter, and the cache is emptied where a bucket begins: the first batch after that is the longest."""
    out = []
    for step in range(0, len(longest), empty_every):
        out += [curve.table[min(longest[step], len(curve.table) - 1)]] * empty_every
    return (*figures(out), max(out))


def fit(curves, targets, start):
    """The numbers under which the sketches of some rows come closest to targets: [(curve, empty_every)], [(mean, p99, max)]."""
    z = normals()
    firsts, some = z[::BATCH], sorted(z)[4::10]  # sorted within buckets: the first of a batch is its longest

    def error(numbers):
        shape = Shape(numbers)
        if min(numbers) <= 0 or numbers[-1] > 768:
            return 1e9
        off = [sum(shape.length(x) for x in some) * SAMPLES / len(some) / TOKENS - 1]
        longest = [shape.length(x) for x in firsts]
        for (curve, every), target in zip(curves, targets):
            off += [a / b - 1 for a, b in zip(sketch(longest, curve, every), target)]
        return sum(x * x for x in off)

    best, value = list(start), error(start)
    step = 0.1
    while step > 0.0005:  # each number in turn, up and down, by ever smaller shares of it
        moved = False
        for i in range(len(best)):
            for sign in (1, -1):
                tried = list(best)
                tried[i] *= 1 + sign * step
                if (e := error(tried)) < value:
                    best, value, moved = tried, e, True
                    break
        if not moved:
            step /= 2
    shape = Shape(best)
    return [shape.length(x) for x in z], best
