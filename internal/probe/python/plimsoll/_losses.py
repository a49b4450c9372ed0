"""Reads from the autograd graph whether a loss is a mean or a sum over its batch.

The walk starts at the loss and follows scalar arithmetic down to the reductions. Names and saved attributes are those of
torch/csrc/autograd/generated/Functions.cpp (2.1 to 2.11).
"""

ARITHMETIC = ("Add", "Sub", "Mul", "Div", "Neg", "ToCopy", "View", "Squeeze", "Unsqueeze", "Alias", "Clone", "Select", "Stack", "Cat", "Expand",
              "Reshape", "UnsafeView", "Index", "Copy", "Where", "Clamp", "Sqrt")
REDUCTIONS = {1: "mean", 2: "sum"}  # at::Reduction
MAX_NODES = 2000


def reduction(loss):
    """ "mean", "sum", or words for why it cannot be told."""
    found, seen, queue = set(), set(), [loss.grad_fn]
    while queue and len(seen) < MAX_NODES:
        node = queue.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        kind = _kind(node)
        if kind is None:
            queue.extend(parent for parent, _ in node.next_functions)
        elif kind != "constant":
            found.add(kind)
    if not found:
        return "no reduction was found behind the loss"
    return found.pop() if len(found) == 1 else "the loss mixes " + " and ".join(sorted(found))


def _kind(node):
    """What a node makes of the batch; None: walk on through it."""
    name = node.name()
    reduces = getattr(node, "_saved_reduction", 0)
    if reduces in REDUCTIONS:
        return REDUCTIONS[reduces]
    if name.startswith("Mean"):
        return "mean"
    if name.startswith(("Sum", "Norm", "LinalgVectorNorm")):
        return "constant" if _over_parameters(node) else "sum"
    if "AccumulateGrad" in name:
        return "constant"  # a parameter itself, as in weight decay written by hand
    if name.startswith(ARITHMETIC):
        return None
    return f"{name} between the loss and its reduction"


def _over_parameters(node):
    """Whether a sum runs over parameters alone (a penalty on weights), which is the same for every part of a batch."""
    queue, seen = [parent for parent, _ in node.next_functions], 0
    while queue and seen < 64:
        here = queue.pop()
        seen += 1
        if here is None:
            return False
        if "AccumulateGrad" in here.name():
            continue
        if not here.name().startswith(ARITHMETIC + ("Pow", "Abs", "Sum", "Norm", "LinalgVectorNorm")):
            return False
        queue.extend(parent for parent, _ in here.next_functions)
    return seen > 0
