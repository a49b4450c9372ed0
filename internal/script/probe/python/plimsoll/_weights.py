"""Weighs the backward passes of micro-batches so that their sum is the whole batch's.

A term of the loss that is a sum of elements divided by a number of them, n in a part and N in the whole batch, counts n/N in that part; one that is a plain sum
counts once. Where n goes with the samples, N is known at once. Where it does not (ignored targets, masks), N is known when the last part's
loss is: until then parts are weighted against a guess, and before the last backward what has been accumulated is brought to the right scale.
Nothing is weighted by assumption: a loss that would need different weights for its terms, or whose divisor has no plain reading, is refused.
"""
from ._losses import Unclear, terms

NEAR = 1e-6  # relative; counts are exact, weights of classes are rounded


class Weights:
    """The weights of one backward call of each part of a batch; a script that calls backward twice for a batch has two of them."""

    def __init__(self):
        self.parts, self.guess = [], 0.0
        self.constant = None  # divisors that were found to count nothing
        self.share, self.uneven = None, False  # what a sample counts, and whether that was seen to differ

    def begin(self):
        """A new batch."""
        self.parts = []

    def weigh(self, loss, part, accumulates):
        """The weight of this part's backward, and the factor that what this batch has accumulated so far must be multiplied with first."""
        found, penalty = terms(loss)
        here = _Reading(found, part, accumulates)
        share = here.counts[0] / part.size
        self.share = share if self.share is None else self.share
        self.uneven = self.uneven or here.kind == "open" or abs(share - self.share) > NEAR * self.share
        if here.kind == "open" and here.counts == self.constant:
            here.kind = "sum"
        if self.parts:
            here.compare(self.parts[0])
        elif here.kind == "sum":
            self.guess = here.counts[0]
        else:
            self.guess = here.counts[0] * part.whole / part.size or float(part.whole)
        self.parts.append(here)
        if not part.last:
            return here.counts[0] / self.guess, 1.0
        whole = self._whole(penalty)
        if whole <= 0:
            return 1.0, 1.0  # no target at all: the untouched loss is 0/0 as well
        factor = self.guess / whole
        return here.counts[0] / whole, 1.0 if abs(factor - 1) < NEAR * NEAR else factor

    def _whole(self, penalty):
        """What the whole batch is divided by."""
        first = self.parts[0]
        if first.kind != "sum" and (first.kind == "mean" or any(part.counts != first.counts for part in self.parts)):
            return sum(part.counts[0] for part in self.parts)
        if any(part.counts != first.counts for part in self.parts):
            raise Unclear("the loss is a sum divided by a number that differs between parts of a batch and counts nothing")
        if first.kind == "open" and first.size == 1 and len(self.parts) > 1:
            raise Unclear(f"the loss is a sum divided by {first.counts[0]:g}: a constant, or a number of elements?")
        if penalty and len(self.parts) > 1:
            raise Unclear("the loss is a sum with a penalty on weights, which every part would count")
        self.constant = first.counts
        return first.counts[0]


class _Reading:
    """What the terms of one part's loss are divided by, and whether that number counts elements ("mean"), not ("sum"), or either ("open")."""

    __slots__ = ("kind", "counts", "form", "size")

    def __init__(self, found, part, accumulates):
        self.counts = [_divided_by(term) for term in found]
        self.form = [(term.mean, term.factors) for term in found]
        self.size = part.size
        averaged = {term.count for term in found if term.mean}
        kinds = {"mean" if averaged.intersection(term.divisors) else _kind(term, part, accumulates) for term in found}
        if "mean" in kinds and kinds != {"mean"}:
            raise Unclear("the loss is a mean in one place and a sum in another")
        self.kind = "mean" if "mean" in kinds else "open" if "open" in kinds else "sum"

    def compare(self, first):
        if [mean for mean, _ in self.form] != [mean for mean, _ in first.form]:
            raise Unclear("parts of one batch have losses of different form")
        if self.form != first.form:
            raise Unclear("the loss is multiplied with a number that differs between parts of a batch")
        ours, theirs = self.counts[0], first.counts[0]
        if any(abs(a * theirs - ours * b) > NEAR * max(a * theirs, ours * b) for a, b in zip(self.counts, first.counts)):
            raise Unclear("terms of the loss are averaged over numbers of elements that differ from part to part, each in its own way")
        if self.kind != first.kind:
            self.kind = first.kind = "open" if "sum" not in (self.kind, first.kind) else "sum"


def _divided_by(term):
    total = float(term.count) if term.mean else 1.0
    for divisor in term.divisors:
        total *= divisor
    return total


def _kind(term, part, accumulates):
    if term.mean:
        return "mean"
    sizes, product = {part.size}, 1
    for size in term.sizes:
        product *= size
        sizes.add(product)

    def of_this_part(number):
        return number in sizes or (part.size > 1 and number % part.size == 0)

    if any(of_this_part(round(1 / f)) for f in map(abs, term.factors) if 0 < f < 0.4 and abs(1 / f - round(1 / f)) < NEAR):
        raise Unclear("the loss is a sum multiplied with what may be one over the number of samples")
    kind = "sum"
    for number in map(abs, term.divisors):
        if accumulates and accumulates > 1 and number == accumulates:
            if of_this_part(number):
                raise Unclear(f"the loss is a sum divided by {accumulates}: the batches accumulated over, or the samples of a part?")
        elif of_this_part(number):
            return "mean"
        elif number == int(number):
            kind = "open"
    return kind
