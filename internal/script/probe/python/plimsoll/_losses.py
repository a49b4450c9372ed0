"""Reads from the autograd graph what a loss averages over: the terms it is made of, each with the number it is divided by.

The walk starts at the loss and follows what is linear in it (sums, factors, divisions by numbers) down to the reductions. Names and saved attributes are
those of torch/csrc/autograd/generated/Functions.cpp (2.1 to 2.11). A mean over targets knows their number: total_weight of nll_loss leaves out
ignored targets and weighs classes, as its division does (aten/src/ATen/native/LossNLL.cpp).
"""

PASSES = ("Add", "Sub", "Neg", "ToCopy", "View", "Squeeze", "Unsqueeze", "Alias", "Clone", "Select", "Stack", "Cat", "Expand", "Reshape", "UnsafeView",
          "Index", "Copy", "AsStrided", "Permute", "T")
NORMS = ("Norm", "LinalgVectorNorm")
PENALTY = PASSES + ("Mul", "Div", "Pow", "Abs", "Sum", "Mean", "Sqrt") + NORMS  # what is made of parameters alone on the way to a penalty
ELEMENTWISE = ("Add", "Sub", "Mul", "Div", "Neg", "Pow", "Abs", "Exp", "Log", "Clamp", "Where", "MaskedFill", "View", "Unsqueeze", "Squeeze", "ToCopy")
MAX_NODES = 2000


class Unclear(Exception):
    """Why it cannot be told how a loss depends on the size of its batch."""


class Term:
    """One reduction behind the loss: mean over `count` elements, or sum; what it is divided by and multiplied with on the way to the loss."""

    __slots__ = ("mean", "count", "sizes", "divisors", "factors")

    def __init__(self, mean, count, sizes, divisors, factors):
        self.mean, self.count, self.sizes, self.divisors, self.factors = mean, count, sizes, divisors, factors


def terms(loss):
    """The terms of a loss, in order, and whether it also holds a penalty on parameters, which no batch changes."""
    found, penalty, seen = [], False, 0
    queue = [(loss.grad_fn, (), ())]
    while queue:
        node, divisors, factors = queue.pop()
        seen += 1
        if node is None or seen > MAX_NODES:
            continue
        name = node.name()
        if "AccumulateGrad" in name or (name.startswith(("Sum", "Mean") + NORMS) and _over_parameters(node)):
            penalty = True
        elif getattr(node, "_saved_reduction", 0) in (1, 2) or name.startswith(("Mean", "Sum")):
            inner = _stacked(node)
            if inner is not None:
                queue.append((inner, divisors, (*factors, 1 / _count(node)) if name.startswith("Mean") else factors))
            else:
                found.append(_term(node, name, divisors, factors))
        else:
            queue.extend(_onward(node, name, divisors, factors))
    if not found:
        raise Unclear("no reduction was found behind the loss")
    return found, penalty


def _term(node, name, divisors, factors):
    if _mean_over_batch_below(node):
        raise Unclear("the loss reduces a mean over the batch once more")
    mean = getattr(node, "_saved_reduction", 1 if name.startswith("Mean") else 2) == 1
    return Term(mean, _count(node), _sizes(node), divisors, factors)


def _onward(node, name, divisors, factors):
    """What a node that is linear in one argument leads to."""
    ways = [parent for parent, _ in node.next_functions if parent is not None]
    if name.startswith(("Mul", "Div")):
        if len(ways) != 1:
            raise Unclear("the loss multiplies or divides one trained quantity by another")
        value = _number(node)
        if name.startswith("Mul"):
            return [(ways[0], divisors, (*factors, value))]
        return [(ways[0], (*divisors, value), factors)]
    if not name.startswith(PASSES):
        raise Unclear(f"{name} between the loss and its reduction")
    return [(way, divisors, factors) for way in ways]


def _number(node):
    """The number a scalar is multiplied with or divided by."""
    for value in (getattr(node, "_saved_other", None), getattr(node, "_saved_self", None)):
        if value is None:
            continue
        if not hasattr(value, "numel"):
            return float(value)
        if value.numel() == 1:
            return float(value.detach())
    raise Unclear("terms of the loss are weighted one by one")


def _sizes(node):
    """The shape of what is reduced."""
    sizes = getattr(node, "_saved_self_sym_sizes", None) or getattr(node, "_saved_self_sizes", None)
    if sizes is None:
        of = getattr(node, "_saved_target", None) if hasattr(node, "_saved_total_weight") else getattr(node, "_saved_self", None)
        sizes = of.shape if of is not None else ()
    return tuple(int(n) for n in sizes)


def _count(node):
    """How much a mean divides by."""
    weight = getattr(node, "_saved_total_weight", None)
    if weight is not None and getattr(node, "_saved_reduction", 0) == 1:
        return float(weight)
    sizes, total = _sizes(node), 1
    over = getattr(node, "_saved_dim", None) if node.name().startswith("Mean") else None
    for axis in over or range(len(sizes)):
        total *= sizes[_axis(axis, len(sizes))]
    return total


def _axis(axis, rank):
    # Functions.cpp hands negative axes out as unsigned numbers of 64 bits.
    axis = axis - 2**64 if axis >= 2**63 else axis
    return axis % max(rank, 1)


def _stacked(node):
    """The stack of scalars that a node adds up, as in torch.stack(losses).sum(); None where it reduces something else."""
    if not node.next_functions or hasattr(node, "_saved_reduction"):
        return None
    below = node.next_functions[0][0]
    return below if below is not None and below.name().startswith("Stack") and len(_sizes(node)) == 1 else None


def _mean_over_batch_below(node):
    """Whether what a reduction runs over is itself a mean over the first dimension, as in x.mean(0).sum()."""
    queue, seen = [parent for parent, _ in node.next_functions], 0
    while queue and seen < 32:
        here = queue.pop()
        seen += 1
        if here is None:
            continue
        name = here.name()
        if name.startswith("Mean") and 0 in {_axis(a, len(_sizes(here))) for a in getattr(here, "_saved_dim", (0,))}:
            return True
        if name.startswith(ELEMENTWISE):
            queue.extend(parent for parent, _ in here.next_functions)
    return False


def _over_parameters(node):
    """Whether a reduction runs over parameters alone (a penalty on weights), which is the same for every part of a batch."""
    queue, seen = [parent for parent, _ in node.next_functions], 0
    while queue and seen < 64:
        here = queue.pop()
        seen += 1
        if here is None:
            continue
        if "AccumulateGrad" in here.name():
            continue
        if not here.name().startswith(PENALTY):
            return False
        queue.extend(parent for parent, _ in here.next_functions)
    return seen > 0
