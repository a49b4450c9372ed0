"""Calls of a model that only repeat: evaluation loops call it hundreds of times, without gradients, on batches of one shape.

After a few such calls there is nothing more to see: the next ones get results of the same shapes at once. A call is known by the shapes of what it is given; one that is
given or gives anything but tensors and plain values (a cache that grows, say) is run, and so is one that left more behind than its result, or that begins with more memory in use
than those that were run: its peak is a new one.
"""
import numbers

from . import _graph

PLAIN = (numbers.Number, str, bytes, type(None))
MOST = 256


class Repeats:
    def __init__(self, torch, enough):
        self.torch, self.enough = torch, enough
        self.seen = {}  # by module and shapes: [calls, result as shapes, the most bytes that were in use when one began, whether one left something behind]

    def key(self, module, args, kwargs):
        """What a call is known by; None where it has to be run."""
        if self.torch.is_grad_enabled():
            return None
        given = self.shapes((args, tuple(sorted(kwargs.items()))))
        return None if given is None else (id(module), module.training, given)

    def shapes(self, value):
        torch = self.torch
        if isinstance(value, torch.Tensor):
            return tuple(value.shape), value.dtype
        if isinstance(value, PLAIN):
            return type(value).__name__, value
        if isinstance(value, dict):
            value = tuple(value.items())
        if not isinstance(value, (tuple, list)):
            return None
        found = tuple(map(self.shapes, value))
        return None if None in found else found

    def result(self, key, make, level=0, slack=0):
        """The result of a call that has been run often enough, with tensors of make(shape, dtype); None where it has not, or begins with more in use than those did, by more than the slack."""
        known = self.seen.get(key)
        if known is None or known[0] < self.enough or known[3] or level > known[2] + slack:
            return None
        return (_graph.mapped(self.torch, known[1], lambda t: make(t.shape, t.dtype)),)

    def ran(self, key, out, before=0, after=0):
        """A call was run; so many bytes were in use before and after it."""
        if key is None or len(self.seen) >= MOST and key not in self.seen or self.shapes(out) is None:
            return
        calls, _, level, leaves = self.seen.get(key, (0, None, 0, False))
        leaves = leaves or after - before > sum(t.untyped_storage().nbytes() for t in _graph.tensors(self.torch, out))
        self.seen[key] = [calls + 1, _graph.mapped(self.torch, out, lambda t: self.torch.empty(t.shape, dtype=t.dtype, device="meta")), max(level, before), leaves]
